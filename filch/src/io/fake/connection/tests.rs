//! A connection, by hand.

use std::net::Shutdown;
use std::time::{Duration, Instant};

use super::Side::{Client, Server};
use super::{Connection, Look, Manners, Parting, Side};

fn fresh(manners: Manners) -> (Connection, Instant) {
    (Connection::new(4, manners), Instant::now())
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn send(connection: &mut Connection, side: Side, bytes: &[u8], at: Instant) {
    connection.send(side, bytes.iter().copied(), at);
}

#[test]
fn bytes_arrive_in_order_and_not_before_their_time() {
    let (mut pipe, now) = fresh(Manners::Tcp);
    send(&mut pipe, Client, b"ab", now + ms(5));
    send(&mut pipe, Client, b"c", now);
    assert_eq!(pipe.look_in(Server, now), Look::Later(now + ms(5)));
    assert_eq!(pipe.look_in(Server, now + ms(5)), Look::Bytes(3));
    assert_eq!(pipe.bytes(Server), b"abc");
    pipe.take(Server, 2);
    assert_eq!(pipe.look_in(Server, now + ms(5)), Look::Bytes(1));
    assert_eq!(pipe.look_in(Client, now + ms(5)), Look::Nothing);
}

#[test]
fn full_pipe_makes_its_writer_wait() {
    let (mut pipe, now) = fresh(Manners::Tcp);
    send(&mut pipe, Client, b"abcd", now);
    assert_eq!(pipe.look_out(Client, now), Look::Nothing);
    pipe.take(Server, 1);
    assert_eq!(pipe.look_out(Client, now), Look::Bytes(1));
}

#[test]
fn half_closed_stream_ends_behind_its_bytes_and_goes_on_the_other_way() {
    let (mut pipe, now) = fresh(Manners::Tcp);
    send(&mut pipe, Client, b"a", now + ms(5));
    pipe.shut(Client, Shutdown::Write, now);
    assert_eq!(pipe.look_in(Server, now + ms(5)), Look::Bytes(1));
    pipe.take(Server, 1);
    assert_eq!(pipe.look_in(Server, now + ms(4)), Look::Later(now + ms(5)));
    assert_eq!(pipe.look_in(Server, now + ms(5)), Look::End);
    assert_eq!(pipe.look_out(Client, now), Look::Error(-libc::EPIPE));
    assert_eq!(pipe.look_out(Server, now), Look::Bytes(4));
}

#[test]
fn close_with_unread_bytes_resets_once_and_is_the_end_then() {
    let (mut pipe, now) = fresh(Manners::Tcp);
    send(&mut pipe, Client, b"a", now);
    assert!(!pipe.close(Server, Parting::Polite, now + ms(1)));
    assert_eq!(pipe.look_in(Client, now), Look::Later(now + ms(1)));
    let error = -libc::ECONNRESET;
    assert_eq!(pipe.look_in(Client, now + ms(1)), Look::Error(error));
    pipe.tell(Client, error);
    assert_eq!(pipe.look_in(Client, now + ms(1)), Look::End);
    assert_eq!(pipe.look_out(Client, now + ms(1)), Look::Error(-libc::EPIPE));
    assert!(pipe.close(Client, Parting::Polite, now));
}

#[test]
fn write_to_a_closed_side_is_answered_by_a_reset_or_fails_within_a_host() {
    let (mut pipe, now) = fresh(Manners::Tcp);
    assert!(!pipe.close(Server, Parting::Polite, now));
    assert_eq!(pipe.look_in(Client, now), Look::End);
    assert_eq!(pipe.look_out(Client, now), Look::Bytes(4));
    send(&mut pipe, Client, b"a", now + ms(1));
    assert_eq!(pipe.look_out(Client, now + ms(1)), Look::Error(-libc::ECONNRESET));

    let (mut pipe, now) = fresh(Manners::Unix);
    assert!(!pipe.close(Server, Parting::Polite, now));
    assert_eq!(pipe.look_out(Client, now), Look::Error(-libc::EPIPE));
}

#[test]
fn break_down_is_known_here_at_once_and_there_behind_what_is_under_way() {
    let (mut pipe, now) = fresh(Manners::Tcp);
    send(&mut pipe, Client, b"a", now + ms(2));
    pipe.break_down(Client, now, now + ms(1));
    assert_eq!(pipe.look_out(Client, now), Look::Error(-libc::EPIPE));
    assert_eq!(pipe.look_in(Server, now + ms(1)), Look::Later(now + ms(2)));
    assert_eq!(pipe.look_in(Server, now + ms(2)), Look::Bytes(1));
    pipe.take(Server, 1);
    assert_eq!(pipe.look_in(Server, now + ms(2)), Look::Error(-libc::ECONNRESET));
}
