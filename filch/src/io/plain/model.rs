//! A read that begins just when its socket becomes special is found there, or sees it (A4).

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{Drivers, Plain, Standing};

/// How far a read is, under the lock of its driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    NotBegun,
    InFlight,
    CalledBack,
}

struct Socket {
    plain: Plain,
    /// What stands before the kernel, and the known drivers.
    state: Mutex<(Standing, Drivers)>,
    drivers: [Mutex<Read>; 2],
}

impl Socket {
    fn new(known: Drivers) -> Self {
        let plain = Plain::new();
        plain.set(Standing::Plain, known);
        let drivers = [(); 2].map(|()| Mutex::new(Read::NotBegun));
        Self { plain, state: Mutex::new((Standing::Plain, known)), drivers }
    }

    /// A read on a driver.
    fn read(&self, on: usize) {
        if !self.plain.is_plain() {
            return;
        }
        *self.drivers[on].lock().unwrap() = Read::InFlight;
        let driver = Drivers::with(on);
        if self.plain.is_known(driver) {
            return;
        }
        let mut state = self.state.lock().unwrap();
        if state.0 == Standing::Plain {
            state.1.add(driver);
            self.plain.set(state.0, state.1);
            return;
        }
        drop(state);
        *self.drivers[on].lock().unwrap() = Read::CalledBack;
    }

    /// Something comes that stands before the kernel.
    fn becomes_special(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 = Standing::Special;
        let known = std::mem::take(&mut state.1);
        self.plain.set(state.0, state.1);
        drop(state);
        for (index, driver) in self.drivers.iter().enumerate() {
            if known.meets(Drivers::with(index)) {
                let mut read = driver.lock().unwrap();
                if *read == Read::InFlight {
                    *read = Read::CalledBack;
                }
            }
        }
    }

    /// Somebody takes it.
    fn becomes_plain(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 = Standing::Plain;
        self.plain.set(state.0, state.1);
    }

    /// Nobody is in flight beside something that stands before the kernel.
    fn check(&self) {
        let special = self.state.lock().unwrap().0 == Standing::Special;
        for driver in &self.drivers {
            let read = *driver.lock().unwrap();
            assert!(!special || read != Read::InFlight, "it sleeps beside what it waits for");
        }
    }
}

fn meets(known: Drivers, comes: fn(&Socket)) {
    loom::model(move || {
        let socket = Arc::new(Socket::new(known));
        let other = socket.clone();
        let thread = thread::spawn(move || other.read(0));
        comes(&socket);
        thread.join().unwrap();
        socket.check();
    });
}

#[test]
fn loom_a_read_in_flight_is_found() {
    for known in [Drivers::default(), Drivers::with(0), Drivers::with(1)] {
        meets(known, Socket::becomes_special);
    }
}

#[test]
fn loom_a_read_in_flight_is_found_the_second_time() {
    for known in [Drivers::default(), Drivers::with(0)] {
        meets(known, |socket| {
            socket.becomes_special();
            socket.becomes_plain();
            socket.becomes_special();
        });
    }
}

#[test]
fn loom_a_read_in_flight_is_found_although_another_makes_its_driver_known() {
    loom::model(|| {
        let socket = Arc::new(Socket::new(Drivers::default()));
        let [one, other] = [socket.clone(), socket.clone()];
        let threads = [
            thread::spawn(move || one.read(0)),
            thread::spawn(move || {
                // As far as a read goes that stays.
                let mut state = other.state.lock().unwrap();
                if state.0 == Standing::Plain {
                    state.1.add(Drivers::with(0));
                    other.plain.set(state.0, state.1);
                }
            }),
        ];
        socket.becomes_special();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        socket.check();
    });
}
