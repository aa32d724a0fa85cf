//! Halves of streams.
//!
//! B1. Both owned halves refer to one socket; the connection is closed when the second is gone.
//! B2. An owned writing half that is dropped ends its direction, after what was begun has gone out (W5
//!     of `write`).

/// The addresses of a connection, told by a half of it.
macro_rules! addresses {
    ($half:ty, $type:ident, $address:ty) => {
        impl $half {
            /// The address of this side.
            ///
            /// # Errors
            /// If the system refuses.
            pub fn local_addr(&self) -> std::io::Result<$address> {
                $type(self.socket().clone()).local_addr()
            }

            /// The address of the other side.
            ///
            /// # Errors
            /// If the connection is gone.
            pub fn peer_addr(&self) -> std::io::Result<$address> {
                $type(self.socket().clone()).peer_addr()
            }
        }
    };
}
pub(super) use addresses;

/// Borrowed and owned halves of a stream type.
macro_rules! halves {
    ($type:ident, $name:literal, $address:ty, $reader:literal, $writer:literal) => {
        use std::fmt;

        use crate::net::poll::{reader, writer};
        use crate::net::socket::Socket;
        use crate::net::split::addresses;
        use crate::net::stream::{reads, writes};

        use super::$type;

        #[doc = concat!("The reading half of a borrowed [`", $name, "`](super::", $name, ").")]
        #[derive(Debug)]
        pub struct ReadHalf<'a>(&'a $type);

        #[doc = concat!("The writing half of a borrowed [`", $name, "`](super::", $name, ").")]
        #[derive(Debug)]
        pub struct WriteHalf<'a>(&'a $type);

        #[doc = concat!("The reading half of a [`", $name, "`](super::", $name, ").")]
        pub struct OwnedReadHalf(Socket);

        #[doc = concat!("The writing half of a [`", $name, "`](super::", $name, "). Dropped, it ends its")]
        /// direction: the other side reads the end of the stream.
        pub struct OwnedWriteHalf {
            socket: Socket,
            at_drop: AtDrop,
        }

        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum AtDrop {
            Shut,
            Leave,
        }

        /// Two halves that are not of one stream; it gives them back.
        #[derive(Debug)]
        pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

        impl fmt::Display for ReuniteError {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the halves are not of one stream")
            }
        }

        impl std::error::Error for ReuniteError {}

        impl $type {
            /// Borrows the stream as two halves. They need no allocation, and cannot leave the task.
            ///
            /// ```
            #[doc = $writer]
            /// let mut stream = writer;
            /// let (_, write) = stream.split();
            /// write.write_all(b"hello").await.0?;
            /// assert_eq!(&reader.recv().await?.unwrap()[..], b"hello");
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
                (ReadHalf(self), WriteHalf(self))
            }

            /// Makes two halves of the stream, for two tasks.
            ///
            /// ```
            #[doc = $writer]
            /// let (read, write) = writer.into_split();
            /// filch::spawn(async move { write.write_all("hello").await.0 }).await?; // and dropped
            /// assert_eq!(&reader.recv().await?.unwrap()[..], b"hello");
            /// assert!(reader.recv().await?.is_none());
            /// # drop(read);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
                let socket = self.0.clone();
                (OwnedReadHalf(self.0), OwnedWriteHalf { socket, at_drop: AtDrop::Shut })
            }
        }

        impl ReadHalf<'_> {
            fn socket(&self) -> &Socket {
                &self.0.0
            }
        }

        impl WriteHalf<'_> {
            fn socket(&self) -> &Socket {
                &self.0.0
            }
        }

        impl AsRef<$type> for ReadHalf<'_> {
            fn as_ref(&self) -> &$type {
                self.0
            }
        }

        impl AsRef<$type> for WriteHalf<'_> {
            fn as_ref(&self) -> &$type {
                self.0
            }
        }

        impl OwnedReadHalf {
            fn socket(&self) -> &Socket {
                &self.0
            }

            /// Makes one stream of two halves.
            ///
            /// ```
            #[doc = $writer]
            /// let (read, write) = writer.into_split();
            /// let writer = read.reunite(write).unwrap();
            /// writer.write_all(b"whole").await.0?;
            /// # drop(reader);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If they are not of one stream; the error gives them back.
            pub fn reunite(self, write: OwnedWriteHalf) -> Result<$type, ReuniteError> {
                if !self.0.is(&write.socket) {
                    return Err(ReuniteError(self, write));
                }
                write.forget();
                Ok($type(self.0))
            }
        }

        impl OwnedWriteHalf {
            fn socket(&self) -> &Socket {
                &self.socket
            }

            /// Makes one stream of two halves.
            ///
            /// ```
            #[doc = $writer]
            /// let (read, write) = writer.into_split();
            /// assert!(write.reunite(read).is_ok());
            /// # drop(reader);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If they are not of one stream; the error gives them back.
            pub fn reunite(self, read: OwnedReadHalf) -> Result<$type, ReuniteError> {
                read.reunite(self)
            }

            /// Drops the half without ending its direction.
            ///
            /// ```
            #[doc = $writer]
            /// let (read, write) = writer.into_split();
            /// write.forget();
            /// assert!(reader.try_read(&mut [0; 1]).is_err(), "not the end");
            /// # drop(read);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            pub fn forget(mut self) {
                self.at_drop = AtDrop::Leave;
            }
        }

        impl Drop for OwnedWriteHalf {
            fn drop(&mut self) {
                if self.at_drop == AtDrop::Shut {
                    // B2.
                    self.socket.writes.shut_when_free();
                }
            }
        }

        impl fmt::Debug for OwnedReadHalf {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple("OwnedReadHalf").field(&self.0).finish()
            }
        }

        impl fmt::Debug for OwnedWriteHalf {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple("OwnedWriteHalf").field(&self.socket).finish()
            }
        }

        addresses!(ReadHalf<'_>, $type, $address);
        addresses!(WriteHalf<'_>, $type, $address);
        addresses!(OwnedReadHalf, $type, $address);
        addresses!(OwnedWriteHalf, $type, $address);
        reads!(ReadHalf<'_>, $reader);
        reads!(OwnedReadHalf, $reader);
        writes!(WriteHalf<'_>, $writer);
        writes!(OwnedWriteHalf, $writer);
        reader!(ReadHalf<'_>, Alone);
        reader!(OwnedReadHalf, Alone);
        writer!(WriteHalf<'_>, Alone);
        writer!(OwnedWriteHalf, Alone);
    };
}
pub(super) use halves;
