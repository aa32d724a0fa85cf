//! Options of internet sockets: a table of names, values and the calls of `socket2` behind them.

use std::net::Ipv4Addr;
use std::time::Duration;

use super::listener::TcpListener;
use super::tcp::TcpStream;
use super::tcp_socket::TcpSocket;
use super::udp::UdpSocket;

/// Getters and setters. Each line: what the option tells, its getter and setter, its type, the value
/// of the example and how what is told then compares to it, the calls of `socket2`.
macro_rules! options {
    ($type:ident, $setup:literal; $(
        $what:literal: $get:ident, $set:ident, $value:ty, $compare:tt $example:expr,
        $system_get:ident, $system_set:ident;
    )*) => {
        impl $type {$(
            #[doc = concat!("Tells ", $what, ".")]
            ///
            /// # Errors
            /// If the system refuses.
            pub fn $get(&self) -> std::io::Result<$value> {
                self.options().$system_get()
            }

            #[doc = concat!("Sets ", $what, ".")]
            ///
            /// ```
            #[doc = $setup]
            #[doc = concat!("socket.", stringify!($set), "(", stringify!($example), ")?;")]
            #[doc = concat!("assert!(socket.", stringify!($get), "()? ", stringify!($compare), " ", stringify!($example), ");")]
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If the system refuses.
            pub fn $set(&self, value: $value) -> std::io::Result<()> {
                self.options().$system_set(value)
            }
        )*}
    };
}

/// As `options!`, with those of every internet socket.
macro_rules! internet_options {
    ($type:ident, $setup:literal; $($more:tt)*) => {
        options! { $type, $setup;
            "how many routers a packet may pass":
                ttl, set_ttl, u32, == 42, ttl_v4, set_ttl_v4;
            "how many bytes the system keeps unread; it takes a wish for twice as much":
                recv_buffer_size, set_recv_buffer_size, usize, >= 10_000,
                recv_buffer_size, set_recv_buffer_size;
            "how many bytes the system keeps unsent; it takes a wish for twice as much":
                send_buffer_size, set_send_buffer_size, usize, >= 10_000,
                send_buffer_size, set_send_buffer_size;
            $($more)*
        }
    };
}

/// As `internet_options!`, with those of TCP, connected or not.
macro_rules! tcp_options {
    ($type:ident, $setup:literal; $($more:tt)*) => {
        internet_options! { $type, $setup;
            "whether small writes are sent at once":
                nodelay, set_nodelay, bool, == true, tcp_nodelay, set_tcp_nodelay;
            "whether an idle connection is probed":
                keepalive, set_keepalive, bool, == true, keepalive, set_keepalive;
            "how long a close waits for what was written, in whole seconds. The thread that drops the \
             socket waits then; a time of zero resets the connection instead":
                linger, set_linger, Option<Duration>, == Some(std::time::Duration::from_secs(3)),
                linger, set_linger;
            $($more)*
        }

        impl $type {
            /// Has the connection reset when it is closed: what was not sent is dropped, and nobody waits.
            ///
            /// ```
            #[doc = $setup]
            /// socket.set_zero_linger()?;
            /// assert_eq!(socket.linger()?, Some(std::time::Duration::ZERO));
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If the system refuses.
            pub fn set_zero_linger(&self) -> std::io::Result<()> {
                self.options().set_linger(Some(Duration::ZERO))
            }
        }
    };
}

tcp_options! { TcpStream, "# filch::block_on(async {
# let listener = filch::net::TcpListener::bind(\"127.0.0.1:0\").await?;
# let socket = filch::net::TcpStream::connect(listener.local_addr()?).await?;";
    "whether what comes is acknowledged at once":
        quickack, set_quickack, bool, == true, tcp_quickack, set_tcp_quickack;
    "how long sent bytes may stay without an answer before the connection fails":
        user_timeout, set_user_timeout, Option<Duration>, == Some(std::time::Duration::from_secs(9)),
        tcp_user_timeout, set_tcp_user_timeout;
}

tcp_options! { TcpSocket, "# filch::block_on(async {
# let socket = filch::net::TcpSocket::new_v4()?;";
    "whether an address may be bound that was in use until lately":
        reuseaddr, set_reuseaddr, bool, == true, reuse_address, set_reuse_address;
    "whether several sockets may share a port":
        reuseport, set_reuseport, bool, == true, reuse_port, set_reuse_port;
    "how packets are marked for routers":
        tos_v4, set_tos_v4, u32, == 16, tos_v4, set_tos_v4;
}

options! { TcpSocket, "# filch::block_on(async {
# let Ok(socket) = filch::net::TcpSocket::new_v6() else { return Ok(()) };";
    "how packets are marked for routers":
        tclass_v6, set_tclass_v6, u32, == 16, tclass_v6, set_tclass_v6;
    "whether a socket for IPv6 is for that alone; to be set before it is bound":
        only_v6, set_only_v6, bool, == true, only_v6, set_only_v6;
}

options! { TcpListener, "# filch::block_on(async {
# let socket = filch::net::TcpListener::bind(\"127.0.0.1:0\").await?;";
    "how many routers a packet may pass":
        ttl, set_ttl, u32, == 42, ttl_v4, set_ttl_v4;
}

internet_options! { UdpSocket, "# filch::block_on(async {
# let socket = filch::net::UdpSocket::bind(\"127.0.0.1:0\").await?;";
    "whether datagrams may go to everybody on a network":
        broadcast, set_broadcast, bool, == true, broadcast, set_broadcast;
    "how packets are marked for routers":
        tos_v4, set_tos_v4, u32, == 16, tos_v4, set_tos_v4;
    "whether this host hears its own datagrams to groups":
        multicast_loop_v4, set_multicast_loop_v4, bool, == true,
        multicast_loop_v4, set_multicast_loop_v4;
    "how many routers a datagram to a group may pass":
        multicast_ttl_v4, set_multicast_ttl_v4, u32, == 3,
        multicast_ttl_v4, set_multicast_ttl_v4;
}

options! { UdpSocket, "# filch::block_on(async {
# let Ok(socket) = filch::net::UdpSocket::bind(\"[::1]:0\").await else { return Ok(()) };";
    "whether this host hears its own datagrams to groups":
        multicast_loop_v6, set_multicast_loop_v6, bool, == true,
        multicast_loop_v6, set_multicast_loop_v6;
    "how many routers a packet may pass":
        unicast_hops_v6, set_unicast_hops_v6, u32, == 42, unicast_hops_v6, set_unicast_hops_v6;
    "how packets are marked for routers":
        tclass_v6, set_tclass_v6, u32, == 16, tclass_v6, set_tclass_v6;
}

/// Groups.
impl UdpSocket {
    /// Joins a group of hosts, at the interface with an address.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let socket = filch::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// let (group, interface) = ([224, 0, 0, 251].into(), [127, 0, 0, 1].into());
    /// socket.join_multicast_v4(group, interface)?;
    /// socket.leave_multicast_v4(group, interface)?;
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the system refuses.
    pub fn join_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> std::io::Result<()> {
        self.options().join_multicast_v4(&group, &interface)
    }

    /// Leaves a group; see [`UdpSocket::join_multicast_v4`].
    ///
    /// # Errors
    /// If the system refuses.
    pub fn leave_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> std::io::Result<()> {
        self.options().leave_multicast_v4(&group, &interface)
    }

    /// Joins a group of hosts, at the interface with a number.
    ///
    /// ```
    /// # filch::block_on(async {
    /// # let Ok(socket) = filch::net::UdpSocket::bind("[::1]:0").await else { return Ok(()) };
    /// let group = "ff01::1234".parse().unwrap();
    /// // Not every host has an interface for that.
    /// if socket.join_multicast_v6(&group, 1).is_ok() {
    ///     socket.leave_multicast_v6(&group, 1)?;
    /// }
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the system refuses.
    pub fn join_multicast_v6(
        &self,
        group: &std::net::Ipv6Addr,
        interface: u32,
    ) -> std::io::Result<()> {
        self.options().join_multicast_v6(group, interface)
    }

    /// Leaves a group.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn leave_multicast_v6(
        &self,
        group: &std::net::Ipv6Addr,
        interface: u32,
    ) -> std::io::Result<()> {
        self.options().leave_multicast_v6(group, interface)
    }
}
