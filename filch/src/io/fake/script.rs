//! How the I/O of a simulation goes, and the dice that a seed throws for it.
//!
//! S1. Every choice comes from one generator, thrown under the network's lock by the holder of the
//!     baton: a seed decides all of them.

use std::time::Duration;

use crate::base::rng::Rng;

/// How the sockets of a simulation behave: what the seed may do to their operations, and how often.
///
/// By default bytes arrive late, operations are told late and in any order, and reads and writes move
/// fewer bytes than they could, as any network may do at any time; nothing fails. Chances are between 0
/// (never) and 1 (always).
///
/// ```
/// use std::time::Duration;
/// use filch::net::{TcpListener, TcpStream};
/// use filch::testkit::{IoScript, Sim};
///
/// let script = IoScript::new().delays(Duration::from_secs(1)).resets(0.01);
/// Sim::new().io(script).check(0..20, || {
///     filch::block_on(async {
///         let listener = TcpListener::bind("127.0.0.1:80").await.unwrap();
///         let client = filch::spawn(async { TcpStream::connect("127.0.0.1:80").await });
///         let (server, _) = listener.accept().await.unwrap();
///         let client = client.await.unwrap();
///         // A connection that may be reset at any time: both sides live with that.
///         let (written, _) = client.write_all("hello").await;
///         let (read, buffer) = server.read(vec![0; 16]).await;
///         if let (Ok(_), Ok(count)) = (written, read) {
///             assert!(b"hello".starts_with(&buffer[..count]));
///         }
///     });
/// });
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct IoScript {
    delay: Duration,
    buffer: usize,
    short: f64,
    hiccup: f64,
    reset: f64,
    refuse: f64,
    lose: f64,
}

/// The longest delay of a default script, in virtual time. Guessed: a thousand switches.
const DELAY: Duration = Duration::from_millis(1);

/// Bytes under way in each direction of a connection in a default script. Guessed: small, so that writers
/// have to wait.
const BUFFER: usize = 4096;

impl Default for IoScript {
    fn default() -> Self {
        Self::new()
    }
}

impl IoScript {
    /// Delays and short transfers, no failures.
    ///
    /// ```
    /// use filch::testkit::{IoScript, Sim};
    /// Sim::new().io(IoScript::new()).run(|| ()); // as without
    /// ```
    pub fn new() -> Self {
        Self {
            delay: DELAY,
            buffer: BUFFER,
            short: 0.5,
            hiccup: 0.125,
            reset: 0.0,
            refuse: 0.0,
            lose: 0.0,
        }
    }

    /// Nothing is late, short or interrupted: whatever can happen happens at once.
    ///
    /// ```
    /// use filch::net::UnixStream;
    /// use filch::testkit::{IoScript, Sim};
    /// Sim::new().io(IoScript::calm()).run(|| {
    ///     filch::block_on(async {
    ///         let (here, there) = UnixStream::pair().unwrap();
    ///         assert_eq!(here.write("hello").await.0.unwrap(), 5);
    ///         assert_eq!(there.read(vec![0; 16]).await.0.unwrap(), 5);
    ///     });
    /// });
    /// ```
    pub fn calm() -> Self {
        Self { delay: Duration::ZERO, short: 0.0, hiccup: 0.0, ..Self::new() }
    }

    /// How much later than possible bytes arrive and completions are told, at most. Default 1 ms.
    ///
    /// ```
    /// use std::time::Duration;
    /// let slow = filch::testkit::IoScript::new().delays(Duration::from_secs(30));
    /// # drop(slow);
    /// ```
    pub fn delays(mut self, longest: Duration) -> Self {
        self.delay = longest;
        self
    }

    /// How many bytes are under way in each direction of a connection, or unread at a datagram socket, at
    /// most. Default 4096.
    ///
    /// ```
    /// let narrow = filch::testkit::IoScript::new().buffers(1);
    /// # drop(narrow);
    /// ```
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn buffers(mut self, bytes: usize) -> Self {
        assert!(bytes > 0, "a buffer of no bytes");
        self.buffer = bytes;
        self
    }

    /// The chance that a read or write on a connection moves fewer bytes than it could. Default 0.5.
    ///
    /// ```
    /// let bytewise = filch::testkit::IoScript::new().shortened(1.0);
    /// # drop(bytewise);
    /// ```
    ///
    /// # Panics
    /// If it is no chance.
    #[track_caller]
    pub fn shortened(mut self, chance: f64) -> Self {
        self.short = checked(chance);
        self
    }

    /// The chance of what the library hides: calls and operations that are interrupted or have to be made
    /// again, an accept that has to be restarted, a receive that finds no free buffer. Default 0.125.
    ///
    /// ```
    /// let bumpy = filch::testkit::IoScript::new().hiccups(0.5);
    /// # drop(bumpy);
    /// ```
    ///
    /// # Panics
    /// If it is no chance, or 1: nothing would ever happen.
    #[track_caller]
    pub fn hiccups(mut self, chance: f64) -> Self {
        assert!(chance < 1.0, "with hiccups alone nothing ever happens");
        self.hiccup = checked(chance);
        self
    }

    /// The chance that a read or write finds its connection reset. Default 0.
    ///
    /// ```
    /// use std::io::ErrorKind;
    /// use filch::net::UnixStream;
    /// use filch::testkit::{IoScript, Sim};
    /// Sim::new().io(IoScript::new().resets(1.0)).run(|| {
    ///     filch::block_on(async {
    ///         let (here, _there) = UnixStream::pair().unwrap();
    ///         let error = here.write("hello").await.0.unwrap_err();
    ///         assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    ///     });
    /// });
    /// ```
    ///
    /// # Panics
    /// If it is no chance.
    #[track_caller]
    pub fn resets(mut self, chance: f64) -> Self {
        self.reset = checked(chance);
        self
    }

    /// The chance that a connection is refused though somebody listens. Default 0.
    ///
    /// ```
    /// use std::io::ErrorKind;
    /// use filch::net::{TcpListener, TcpStream};
    /// use filch::testkit::{IoScript, Sim};
    /// Sim::new().io(IoScript::new().refusals(1.0)).run(|| {
    ///     filch::block_on(async {
    ///         let _listener = TcpListener::bind("127.0.0.1:80").await.unwrap();
    ///         let error = TcpStream::connect("127.0.0.1:80").await.unwrap_err();
    ///         assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    ///     });
    /// });
    /// ```
    ///
    /// # Panics
    /// If it is no chance.
    #[track_caller]
    pub fn refusals(mut self, chance: f64) -> Self {
        self.refuse = checked(chance);
        self
    }

    /// The chance that a UDP datagram is lost. Default 0.
    ///
    /// ```
    /// let lossy = filch::testkit::IoScript::new().losses(0.1);
    /// # drop(lossy);
    /// ```
    ///
    /// # Panics
    /// If it is no chance.
    #[track_caller]
    pub fn losses(mut self, chance: f64) -> Self {
        self.lose = checked(chance);
        self
    }
}

#[track_caller]
fn checked(chance: f64) -> f64 {
    assert!((0.0..=1.0).contains(&chance), "a chance of {chance} is not between 0 and 1");
    chance
}

/// A script and its dice (S1).
pub(super) struct Dice {
    script: IoScript,
    rng: Rng,
}

impl Dice {
    pub(super) fn new(script: IoScript, seed: u64) -> Self {
        Self { script, rng: Rng::new(seed) }
    }

    fn happens(&mut self, chance: f64) -> bool {
        // Never and always throw no dice.
        chance >= 1.0
            || chance > 0.0 && (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64 <= chance
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        self.rng.below(n)
    }

    /// How much later something happens than it could: a fourth of the time not at all.
    pub(super) fn delay(&mut self) -> Duration {
        let most = u64::try_from(self.script.delay.as_nanos()).unwrap_or(u64::MAX);
        if most == 0 || self.rng.below(4) == 0 {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.rng.next_u64() % most)
    }

    /// How many of so many bytes are moved: all, or some.
    pub(super) fn share(&mut self, bytes: usize) -> usize {
        let short = bytes > 1 && self.happens(self.script.short);
        if short { 1 + self.rng.below(bytes - 1) } else { bytes }
    }

    pub(super) fn buffer(&self) -> usize {
        self.script.buffer
    }

    pub(super) fn hiccups(&mut self) -> bool {
        self.happens(self.script.hiccup)
    }

    pub(super) fn resets(&mut self) -> bool {
        self.happens(self.script.reset)
    }

    pub(super) fn refuses(&mut self) -> bool {
        self.happens(self.script.refuse)
    }

    pub(super) fn loses(&mut self) -> bool {
        self.happens(self.script.lose)
    }
}
