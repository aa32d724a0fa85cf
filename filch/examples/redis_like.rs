//! A server that speaks enough RESP for redis-benchmark and redis-cli: PING, ECHO, SET, GET, DEL, INCR,
//! pipelined or not, in arrays or in plain lines.
//!
//! `cargo run --release --example redis_like -- 127.0.0.1:6379`, then
//! `redis-benchmark -t ping,set,get -n 100000 -P 16`.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use filch::net::{TcpListener, TcpStream};

/// Bytes of one command at most, and of unanswered ones.
const MOST: usize = 64 << 20;

type Store = Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>;

/// What the bytes so far begin with.
enum Parsed<'a> {
    /// A command, and how many bytes it takes.
    Command(Vec<&'a [u8]>, usize),
    /// The beginning of one.
    More,
    Nonsense,
}

/// A line without its end, and the bytes up to the next.
fn line(bytes: &[u8], from: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(from..)?;
    let end = rest.iter().position(|&byte| byte == b'\n')?;
    let text = &rest[..end];
    Some((text.strip_suffix(b"\r").unwrap_or(text), from + end + 1))
}

fn number(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn parse(bytes: &[u8]) -> Parsed<'_> {
    let Some((first, mut at)) = line(bytes, 0) else { return Parsed::More };
    let Some(count) = first.strip_prefix(b"*") else {
        let words = first.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        return Parsed::Command(words.collect(), at);
    };
    let Some(count) = number(count).filter(|&count| count <= 1024) else { return Parsed::Nonsense };
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let Some((length, body)) = line(bytes, at) else { return Parsed::More };
        let length = length.strip_prefix(b"$").and_then(number).filter(|&length| length <= MOST);
        let Some(length) = length else { return Parsed::Nonsense };
        let end = body + length;
        if bytes.len() < end + 2 {
            return Parsed::More;
        }
        words.push(&bytes[body..end]);
        at = end + 2;
    }
    Parsed::Command(words, at)
}

fn bulk(answer: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => answer.extend_from_slice(b"$-1\r\n"),
        Some(bytes) => {
            answer.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
            answer.extend_from_slice(bytes);
            answer.extend_from_slice(b"\r\n");
        }
    }
}

fn incr(store: &Store, key: &[u8]) -> String {
    let mut store = store.lock().unwrap();
    let value = store.entry(key.to_vec()).or_insert_with(|| b"0".to_vec());
    let old = std::str::from_utf8(value).ok().and_then(|text| text.parse::<i64>().ok());
    match old.and_then(|old| old.checked_add(1)) {
        Some(new) => {
            *value = new.to_string().into_bytes();
            format!(":{new}\r\n")
        }
        None => "-ERR value is not an integer or out of range\r\n".to_owned(),
    }
}

fn execute(store: &Store, words: &[&[u8]], answer: &mut Vec<u8>) {
    let name = words.first().map_or(Vec::new(), |name| name.to_ascii_uppercase());
    match (&*name, &words[words.len().min(1)..]) {
        (b"", _) => {}
        (b"PING", []) => answer.extend_from_slice(b"+PONG\r\n"),
        (b"PING" | b"ECHO", [text]) => bulk(answer, Some(text)),
        (b"SET", [key, value]) => {
            store.lock().unwrap().insert(key.to_vec(), value.to_vec());
            answer.extend_from_slice(b"+OK\r\n");
        }
        (b"GET", [key]) => {
            let store = store.lock().unwrap();
            bulk(answer, store.get(*key).map(Vec::as_slice));
        }
        (b"DEL", keys) => {
            let mut store = store.lock().unwrap();
            let gone = keys.iter().filter(|key| store.remove(**key).is_some()).count();
            answer.extend_from_slice(format!(":{gone}\r\n").as_bytes());
        }
        (b"INCR", [key]) => answer.extend_from_slice(incr(store, key).as_bytes()),
        // What the tools ask first.
        (b"CONFIG" | b"COMMAND", _) => answer.extend_from_slice(b"*0\r\n"),
        _ => answer.extend_from_slice(b"-ERR unknown command or wrong number of arguments\r\n"),
    }
}

/// Executes all whole commands of `input`; the bytes that they take, or nothing if it is nonsense.
fn execute_all(store: &Store, input: &[u8], answer: &mut Vec<u8>) -> Option<usize> {
    let mut at = 0;
    loop {
        match parse(&input[at..]) {
            Parsed::Command(words, taken) => {
                execute(store, &words, answer);
                at += taken;
            }
            Parsed::More => return Some(at),
            Parsed::Nonsense => {
                answer.extend_from_slice(b"-ERR Protocol error\r\n");
                return None;
            }
        }
    }
}

async fn serve(stream: TcpStream, store: Store) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // Commands that have not come whole.
    let mut rest: Vec<u8> = Vec::new();
    let mut answer = Vec::new();
    while let Some(chunk) = stream.recv().await? {
        answer.clear();
        let taken = if rest.is_empty() {
            let taken = execute_all(&store, &chunk, &mut answer);
            rest.extend_from_slice(&chunk[taken.unwrap_or(0)..]);
            taken
        } else {
            rest.extend_from_slice(&chunk);
            let taken = execute_all(&store, &rest, &mut answer);
            rest.drain(..taken.unwrap_or(0));
            taken
        };
        let (result, buffer) = stream.write_all(answer).await;
        result?;
        answer = buffer;
        if taken.is_none() || rest.len() > MOST {
            break;
        }
    }
    Ok(())
}

#[filch::main]
async fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:6379".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    let store = Store::default();
    loop {
        let (stream, peer) = listener.accept().await?;
        let store = store.clone();
        filch::spawn(async move {
            if let Err(error) = serve(stream, store).await {
                eprintln!("{peer}: {error}");
            }
        })
        .detach();
    }
}
