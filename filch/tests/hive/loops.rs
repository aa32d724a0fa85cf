//! Event loops of others: cores, sources of the right kind, watchers that start and stop at any time.

use std::any::Any;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, mpsc};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use filch::{
    Builder, EventCore, EventSource, FdSource, Handle, Interest, NewWorker, PollCore, SourceId,
    SourceKind, WatchRefusal, Watcher, WorkerId, worker,
};

use crate::support::{Books, Entry, receive, until, watched};

const KEYS: SourceKind = SourceKind::new("keys");

/// A loop of key presses, which a test types.
#[derive(Default)]
struct Keyboard {
    pressed: Mutex<(Vec<u32>, bool)>,
    changed: Condvar,
}

impl Keyboard {
    fn type_key(&self, key: u32) {
        self.pressed.lock().unwrap().0.push(key);
        self.changed.notify_all();
    }
}

impl Wake for Keyboard {
    fn wake(self: Arc<Self>) {
        self.pressed.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

struct KeyCore {
    keyboard: Arc<Keyboard>,
    sources: BTreeMap<SourceId, Box<dyn EventSource>>,
}

impl KeyCore {
    fn dispatch(&mut self, keys: Vec<u32>) -> usize {
        for key in &keys {
            for source in self.sources.values_mut() {
                if source.registration().downcast_ref() == Some(key) {
                    source.dispatch(key);
                }
            }
        }
        keys.len()
    }
}

impl EventCore for KeyCore {
    fn poll(&mut self) -> usize {
        let keys = std::mem::take(&mut self.keyboard.pressed.lock().unwrap().0);
        self.dispatch(keys)
    }

    fn park(&mut self, timeout: Option<Duration>) {
        let keyboard = self.keyboard.clone();
        let pressed = keyboard.pressed.lock().unwrap();
        let quiet = |state: &mut (Vec<u32>, bool)| state.0.is_empty() && !state.1;
        let mut pressed = match timeout {
            None => keyboard.changed.wait_while(pressed, quiet).unwrap(),
            Some(time) => keyboard.changed.wait_timeout_while(pressed, time, quiet).unwrap().0,
        };
        pressed.1 = false;
        let keys = std::mem::take(&mut pressed.0);
        drop(pressed);
        self.dispatch(keys);
    }

    fn waker(&self) -> Waker {
        Waker::from(self.keyboard.clone())
    }

    fn source_kind(&self) -> Option<SourceKind> {
        Some(KEYS)
    }

    fn add_source(&mut self, id: SourceId, source: Box<dyn EventSource>) -> io::Result<()> {
        if source.registration().downcast_ref() == Some(&0u32) {
            return Err(io::Error::other("key 0 is not on this keyboard"));
        }
        self.sources.insert(id, source);
        Ok(())
    }

    fn remove_source(&mut self, id: SourceId) {
        self.sources.remove(&id);
    }
}

/// Hears one key.
struct Key<F>(u32, F);

impl<F: FnMut() + Send> EventSource for Key<F> {
    fn kind(&self) -> SourceKind {
        KEYS
    }

    fn registration(&self) -> &dyn Any {
        &self.0
    }

    fn dispatch(&mut self, _: &dyn Any) {
        (self.1)();
    }
}

/// A hive whose main worker lives in a keyboard, on a thread of its own.
struct Desk {
    keyboard: Arc<Keyboard>,
    handle: Handle,
    ui: WorkerId,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Desk {
    fn new() -> Self {
        let keyboard = Arc::new(Keyboard::default());
        let hive = Builder::new().hive().unwrap();
        let core = KeyCore { keyboard: keyboard.clone(), sources: BTreeMap::new() };
        let ui = hive.attach(NewWorker::io().name("ui").event_core(core)).unwrap();
        hive.attach(NewWorker::io()).unwrap();
        hive.attach(NewWorker::compute()).unwrap();
        let handle = hive.handle();
        let thread = Some(std::thread::spawn(move || drop(hive.run().unwrap())));
        Self { keyboard, handle, ui, thread }
    }

    fn settle(&self) {
        // What was changed before is in place once a task has run there.
        let (send, done) = mpsc::channel();
        self.handle.post_to(self.ui, move || send.send(()).unwrap()).unwrap();
        receive(&done);
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.handle.request_stop();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

#[test]
fn a_core_of_the_programs_own_dispatches_on_the_main_worker_which_runs_tasks_too() {
    watched(|| {
        let desk = Desk::new();
        let (send, heard) = mpsc::channel();
        let handle = desk.handle.clone();
        let key = Key(7, move || {
            // A dispatch may post: to anybody, to itself, for later.
            let here = worker::current().unwrap().id();
            let tell = send.clone();
            handle.post_compute(move || tell.send((here, "compute")).unwrap()).unwrap();
            let tell = send.clone();
            worker::post_self(move || tell.send((here, "self")).unwrap()).unwrap();
            let tell = send.clone();
            let later = move || tell.send((here, "later")).unwrap();
            drop(handle.post_delayed(Duration::from_millis(1), later).unwrap());
        });
        let _watcher = desk.handle.watch(desk.ui, key).unwrap();
        desk.settle();
        desk.keyboard.type_key(7);
        let mut told: Vec<_> = (0..3).map(|_| receive(&heard)).collect();
        told.sort_by_key(|(_, what)| *what);
        assert_eq!(told, [(desk.ui, "compute"), (desk.ui, "later"), (desk.ui, "self")]);
    });
}

#[test]
fn a_source_of_another_kind_is_refused_told_and_changes_nothing() {
    watched(|| {
        let desk = Desk::new();
        let (here, _there) = UnixStream::pair().unwrap();
        let source = FdSource::new(here, Interest::READ, |_, _| panic!("dispatched"));
        let refused = desk.handle.watch(desk.ui, source).unwrap_err();
        let reason = WatchRefusal::WrongKind { core: Some(KEYS), source: SourceKind::FD };
        assert_eq!(refused.reason, reason);
        let told = desk.handle.describe().to_string();
        assert!(told.contains("takes keys, and the source is one of file descriptors"), "{told}");
        // The runtime's own core takes none at all.
        let other = desk.handle.workers()[1].id;
        let refused = desk.handle.watch(other, refused.source).unwrap_err();
        assert!(matches!(refused.reason, WatchRefusal::WrongKind { core: None, .. }));
        // The core goes on.
        let (send, heard) = mpsc::channel();
        let _watcher = desk.handle.watch(desk.ui, Key(1, move || send.send(()).unwrap())).unwrap();
        desk.settle();
        desk.keyboard.type_key(1);
        receive(&heard);
    });
}

#[test]
fn a_source_that_the_core_refuses_is_told_and_its_watcher_is_stopped() {
    watched(|| {
        let desk = Desk::new();
        let watcher = desk.handle.watch(desk.ui, Key(0, || ())).unwrap();
        until(|| !watcher.is_started());
        assert!(desk.handle.describe().to_string().contains("key 0 is not on this keyboard"));
    });
}

#[test]
fn watchers_start_and_stop_from_any_thread_and_again() {
    watched(|| {
        let desk = Desk::new();
        let heard = Arc::new(AtomicUsize::new(0));
        let count = heard.clone();
        let key = Key(1, move || _ = count.fetch_add(1, Ordering::SeqCst));
        let watcher = desk.handle.watch(desk.ui, key).unwrap();
        let (send, others) = mpsc::channel();
        let _other = desk.handle.watch(desk.ui, Key(2, move || send.send(()).unwrap())).unwrap();
        let press = |times: usize| {
            (0..times).for_each(|_| desk.keyboard.type_key(1));
            desk.keyboard.type_key(2);
            receive(&others);
        };
        desk.settle();
        press(2);
        assert_eq!(heard.load(Ordering::SeqCst), 2);
        watcher.stop();
        press(3);
        assert_eq!(heard.load(Ordering::SeqCst), 2);
        watcher.start().unwrap();
        desk.settle();
        press(1);
        assert_eq!(heard.load(Ordering::SeqCst), 3);
        drop(watcher);
        press(1);
        assert_eq!(heard.load(Ordering::SeqCst), 3);
    });
}

#[test]
fn a_watcher_stops_itself_inside_its_dispatch_and_starts_another() {
    watched(|| {
        let desk = Desk::new();
        let (send, heard) = mpsc::channel();
        let (own, next) = (Arc::new(OnceLock::<Watcher>::new()), Arc::new(Mutex::new(None)));
        let (me, handle, ui) = (own.clone(), desk.handle.clone(), desk.ui);
        let (tell, after) = (send.clone(), next.clone());
        let key = Key(1, move || {
            tell.send("first").unwrap();
            me.get().unwrap().stop();
            let tell = tell.clone();
            let second = Key(2, move || tell.send("second").unwrap());
            *after.lock().unwrap() = Some(handle.watch(ui, second).unwrap());
        });
        own.set(desk.handle.watch(desk.ui, key).unwrap()).unwrap();
        desk.settle();
        // Two presses in one turn: the second is not told any more.
        {
            let mut pressed = desk.keyboard.pressed.lock().unwrap();
            pressed.0.extend([1, 1]);
        }
        desk.keyboard.type_key(1);
        assert_eq!(receive(&heard), "first");
        desk.settle();
        desk.settle();
        desk.keyboard.type_key(1);
        desk.keyboard.type_key(2);
        assert_eq!(receive(&heard), "second");
        drop(next);
    });
}

#[test]
fn descriptors_are_told_as_long_as_they_are_ready_and_a_panic_is_survived() {
    watched(|| {
        let hive = Builder::new().hive().unwrap();
        let core = PollCore::new().unwrap();
        let ui = hive.attach(NewWorker::io().event_core(core)).unwrap();
        let (mut writer, reader) = UnixStream::pair().unwrap();
        let (handle, mut bytes) = (hive.handle(), Vec::new());
        let source =
            FdSource::new(reader, Interest::READ, move |mut reader: &UnixStream, event| {
                assert!(event.is_readable() && !event.is_writable());
                let mut byte = [0];
                reader.read_exact(&mut byte).unwrap();
                bytes.push(byte[0]);
                match byte[0] {
                    2 => panic!("in a dispatch"),
                    9 => {
                        assert_eq!(bytes, (0..10).collect::<Vec<u8>>());
                        handle.request_stop();
                    }
                    _ => {}
                }
            });
        let _watcher = hive.watch(ui, source).unwrap();
        let typist = std::thread::spawn(move || {
            for byte in 0..10 {
                writer.write_all(&[byte]).unwrap();
            }
            writer
        });
        hive.run().unwrap();
        typist.join().unwrap();
    });
}

#[test]
fn a_polling_worker_is_woken_by_posts_timers_and_results_of_computing() {
    watched(|| {
        let hive = Builder::new().compute_workers(1).hive().unwrap();
        let core = PollCore::new().unwrap();
        let ui = hive.attach(NewWorker::io().event_core(core)).unwrap();
        let handle = hive.handle();
        let program = hive.spawn_to(ui, move || async move {
            let here = std::thread::current().id();
            for _ in 0..20 {
                let begin = Instant::now();
                filch::time::sleep(Duration::from_micros(1500)).await;
                assert!(begin.elapsed() >= Duration::from_micros(1500));
                assert_eq!(filch::cpu(|| 6 * 7).await, 42);
                assert_eq!(std::thread::current().id(), here);
            }
            handle.request_stop();
        });
        drop(program.unwrap());
        hive.run().unwrap();
    });
}

#[test]
fn sockets_work_on_a_worker_whose_core_is_the_programs_own() {
    watched(|| {
        use filch::io::{AsyncReadExt, AsyncWriteExt};
        let desk = Desk::new();
        let pinned = desk.handle.spawn_to(desk.ui, || async {
            let listener = filch::net::TcpListener::bind("127.0.0.1:0").await?;
            let mut here = filch::net::TcpStream::connect(listener.local_addr()?).await?;
            let (mut there, _) = listener.accept().await?;
            AsyncWriteExt::write_all(&mut here, b"hello").await?;
            let mut bytes = [0; 5];
            AsyncReadExt::read_exact(&mut there, &mut bytes).await?;
            io::Result::Ok(bytes)
        });
        assert_eq!(&pinned.unwrap().wait().unwrap(), b"hello");
    });
}

#[test]
fn where_no_worker_drives_io_a_socket_says_so() {
    watched(|| {
        let hive = Builder::new().hive().unwrap();
        hive.attach(NewWorker::io().event_core(PollCore::new().unwrap())).unwrap();
        let handle = hive.handle();
        drop(hive.spawn(async move {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let to = listener.local_addr().unwrap();
            assert!(filch::net::TcpStream::connect(to).await.is_err());
            handle.request_stop();
        }));
        assert!(hive.run().is_ok());
    });
}

#[test]
fn a_core_is_parked_for_ever_without_timers_and_until_the_next_deadline_with_one() {
    watched(|| {
        let books = Books::default();
        let hive = Builder::new().hive().unwrap();
        let ui = hive.attach(NewWorker::io().event_core(books.core())).unwrap();
        let handle = hive.handle();
        let thread = std::thread::spawn(move || drop(hive.run().unwrap()));
        until(|| books.parks() > 0);
        assert!(books.take().contains(&Entry::Park(None)));
        let delay = Duration::from_secs(100);
        let post = handle.post_delayed(delay, || ()).unwrap();
        until(|| books.parks() > 0);
        let parks = books.take();
        let timeout = parks.iter().find_map(|entry| match entry {
            Entry::Park(Some(timeout)) => Some(*timeout),
            _ => None,
        });
        let timeout = timeout.expect("a deadline");
        assert!(timeout <= delay && timeout > delay / 2, "{timeout:?}");
        post.cancel();
        handle.wake(ui).unwrap();
        handle.request_stop();
        thread.join().unwrap();
    });
}
