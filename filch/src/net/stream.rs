//! What every stream has, whole or half, TCP or Unix: the faces of `read`, `receive` and `write`.
//!
//! Each macro takes the type and the hidden lines of its examples, which make a `reader` and a `writer`,
//! or `socket` and `other`, of it.

/// Methods that read.
macro_rules! reads {
    ($type:ty, $setup:literal) => {
        impl $type {
            /// Reads what there is into the buffer, from its start; 0 bytes are the end of the stream,
            /// unless the buffer has none. The capacity of a vector is used, and its length set.
            ///
            /// ```
            #[doc = $setup]
            /// writer.write_all(b"hello").await.0?;
            /// let (result, buffer) = reader.read(vec![0; 1024]).await;
            /// assert_eq!(&buffer[..result?], b"hello");
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If the connection failed. The buffer comes back in any case.
            ///
            /// # Cancel safety
            /// A dropped read loses nothing: what it has received, the next read returns. To get the
            /// buffer back, use [`Read::cancel`](crate::net::Read::cancel).
            pub fn read<B>(&self, buf: B) -> crate::net::Read<'_, B>
            where
                B: crate::io::IoBufMut + Unpin,
            {
                crate::net::Read::new(self.socket(), buf, crate::net::receive::Extent::Some)
            }

            /// Reads until the buffer is full.
            ///
            /// ```
            #[doc = $setup]
            /// writer.write_all(b"head").await.0?;
            /// writer.write_all(b"body").await.0?;
            /// let (result, buffer) = reader.read_exact(vec![0; 8]).await;
            /// result?;
            /// assert_eq!(buffer, b"headbody");
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// As `read`, and `UnexpectedEof` if the stream ends before. What was read by then is there
            /// for the next read.
            ///
            /// # Cancel safety
            /// As `read`.
            pub fn read_exact<B>(&self, buf: B) -> crate::net::Read<'_, B>
            where
                B: crate::io::IoBufMut + Unpin,
            {
                crate::net::Read::new(self.socket(), buf, crate::net::receive::Extent::All)
            }

            /// Reads what there is into several buffers, each filled before the next; 0 bytes are the
            /// end of the stream, unless the buffers have none.
            ///
            /// ```
            #[doc = $setup]
            /// use std::io::IoSliceMut;
            /// writer.write_all(b"headbody").await.0?;
            /// let (mut head, mut body) = ([0; 4], [0; 4]);
            /// let mut buffers = [IoSliceMut::new(&mut head), IoSliceMut::new(&mut body)];
            /// assert_eq!(reader.read_vectored(&mut buffers).await?, 8);
            /// assert_eq!(&body, b"body");
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If the connection failed.
            ///
            /// # Cancel safety
            /// A dropped read has read nothing.
            pub async fn read_vectored(
                &self,
                bufs: &mut [std::io::IoSliceMut<'_>],
            ) -> std::io::Result<usize> {
                self.socket().reads.read_vectored(bufs).await
            }

            /// The next bytes, where the kernel put them; `None` at the end of the stream.
            ///
            /// Once used, the socket receives ahead: at most some chunks, then the other side has to
            /// wait.
            ///
            /// ```
            #[doc = $setup]
            /// writer.write_all(b"hello").await.0?;
            /// assert_eq!(&reader.recv().await?.unwrap()[..], b"hello");
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If the connection failed.
            ///
            /// # Cancel safety
            /// A dropped `recv` loses nothing.
            pub fn recv(&self) -> crate::net::Recv<'_> {
                crate::net::Recv::new(self.socket())
            }

            /// Reads without taking: the next read returns the same bytes.
            ///
            /// ```
            #[doc = $setup]
            /// writer.write_all(b"twice").await.0?;
            /// let mut buffer = [0; 16];
            /// assert_eq!(reader.peek(&mut buffer).await?, 5);
            /// assert_eq!(reader.peek(&mut buffer).await?, 5);
            /// assert_eq!(&buffer[..5], b"twice");
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If the connection failed.
            ///
            /// # Cancel safety
            /// It takes nothing.
            pub async fn peek(&self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.socket().reads.peek(buf).await
            }

            /// Waits until there is something to read, or the end. Another may read it first.
            ///
            /// ```
            #[doc = $setup]
            /// writer.write_all(b"now").await.0?;
            /// reader.readable().await?;
            /// assert_eq!(reader.try_read(&mut [0; 16])?, 3);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If the connection failed.
            ///
            /// # Cancel safety
            /// It takes nothing.
            pub async fn readable(&self) -> std::io::Result<()> {
                self.socket().reads.readable().await
            }

            /// Reads what is there already.
            ///
            /// ```
            #[doc = $setup]
            /// let error = reader.try_read(&mut [0; 16]).unwrap_err();
            /// assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
            /// # drop(writer);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// `WouldBlock` if there is nothing, or a dropped read may still bring something; else if
            /// the connection failed.
            pub fn try_read(&self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.socket().reads.try_read(buf)
            }

            /// As `try_read`, into several buffers.
            ///
            /// ```
            #[doc = $setup]
            /// writer.write_all(b"headbody").await.0?;
            /// reader.readable().await?;
            /// let (mut head, mut body) = ([0; 4], [0; 4]);
            /// let mut buffers = [&mut head, &mut body].map(|part| std::io::IoSliceMut::new(part));
            /// assert!(reader.try_read_vectored(&mut buffers)? >= 4);
            /// assert_eq!(&head, b"head");
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// As `try_read`.
            pub fn try_read_vectored(
                &self,
                bufs: &mut [std::io::IoSliceMut<'_>],
            ) -> std::io::Result<usize> {
                self.socket().reads.try_read_vectored(bufs)
            }
        }
    };
}
pub(super) use reads;

/// Methods that write.
macro_rules! writes {
    ($type:ty, $setup:literal) => {
        impl $type {
            /// Writes what fits, and returns how much that was.
            ///
            /// ```
            #[doc = $setup]
            /// let (result, buffer) = writer.write(b"hello".to_vec()).await;
            /// assert_eq!(result?, buffer.len());
            /// # drop(reader);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If the connection failed. The buffer comes back in any case.
            ///
            /// # Cancel safety
            /// A dropped write has not started, or runs to its end before any later one. To know, use
            /// [`Write::cancel`](crate::net::Write::cancel).
            pub fn write<B>(&self, buf: B) -> crate::net::Write<'_, B>
            where
                B: crate::io::IoBuf + Unpin,
            {
                crate::net::Write::new(self.socket(), buf, crate::net::write::Extent::Some)
            }

            /// Writes all of the buffer, and returns how much that was. Other writes come before or
            /// after it.
            ///
            /// ```
            #[doc = $setup]
            /// writer.write_all(String::from("hello")).await.0?;
            /// let (result, buffer) = reader.read_exact(vec![0; 5]).await;
            /// result?;
            /// assert_eq!(buffer, b"hello");
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// As `write`.
            ///
            /// # Cancel safety
            /// As `write`.
            pub fn write_all<B>(&self, buf: B) -> crate::net::Write<'_, B>
            where
                B: crate::io::IoBuf + Unpin,
            {
                crate::net::Write::new(self.socket(), buf, crate::net::write::Extent::All)
            }

            /// Writes what fits of several buffers, in order, and returns how much that was.
            ///
            /// ```
            #[doc = $setup]
            /// use std::io::IoSlice;
            /// let buffers = [IoSlice::new(b"head"), IoSlice::new(b"body")];
            /// assert_eq!(writer.write_vectored(&buffers).await?, 8);
            /// let (result, buffer) = reader.read_exact(vec![0; 8]).await;
            /// result?;
            /// assert_eq!(buffer, b"headbody");
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If the connection failed.
            ///
            /// # Cancel safety
            /// A dropped one has written nothing.
            pub async fn write_vectored(
                &self,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::io::Result<usize> {
                self.socket().writes.write_vectored(bufs).await
            }

            /// Waits until something fits. Another may write first.
            ///
            /// ```
            #[doc = $setup]
            /// writer.writable().await?;
            /// assert_eq!(writer.try_write(b"now")?, 3);
            /// # drop(reader);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If the connection failed.
            ///
            /// # Cancel safety
            /// It writes nothing.
            pub async fn writable(&self) -> std::io::Result<()> {
                let direction = crate::io::readiness::Direction::Write;
                crate::net::when::ready(&self.socket().descriptor, direction).await
            }

            /// Writes what fits now.
            ///
            /// ```
            #[doc = $setup]
            /// assert_eq!(writer.try_write(b"now")?, 3);
            /// # drop(reader);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// `WouldBlock` if nothing fits, or another write is under way; else if the connection
            /// failed.
            pub fn try_write(&self, buf: &[u8]) -> std::io::Result<usize> {
                self.socket().writes.try_write(buf)
            }

            /// As `try_write`, of several buffers.
            ///
            /// ```
            #[doc = $setup]
            /// let buffers = [std::io::IoSlice::new(b"head"), std::io::IoSlice::new(b"body")];
            /// assert_eq!(writer.try_write_vectored(&buffers)?, 8);
            /// # drop(reader);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// As `try_write`.
            pub fn try_write_vectored(
                &self,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::io::Result<usize> {
                self.socket().writes.try_write_vectored(bufs)
            }
        }
    };
}
pub(super) use writes;

/// Methods of a whole stream, besides those of its halves: its std twin, its end, its descriptor.
macro_rules! whole {
    ($type:ident, $std:ty, $setup:literal) => {
        impl $type {
            /// Takes a stream of std, whatever mode it is in.
            ///
            /// The connection belongs to the runtime of the running task, else to the default one.
            ///
            /// ```
            #[doc = $setup]
            /// let (std, _) = writer.into_std().await?;
            #[doc = concat!("let writer = filch::net::", stringify!($type), "::from_std(std)?;")]
            /// writer.write_all(b"there and back").await.0?;
            /// assert_eq!(&reader.recv().await?.unwrap()[..], b"there and back");
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If the system refuses, or that runtime drives no I/O.
            pub fn from_std(stream: $std) -> std::io::Result<Self> {
                stream.set_nonblocking(false)?;
                let engine = crate::net::engine_here();
                crate::net::socket::Socket::from_fd(stream.into(), &engine).map(Self)
            }

            /// Gives the connection to std, in blocking mode, with the bytes that were received and not
            /// read. What dropped writes have begun goes out first.
            ///
            /// ```
            #[doc = $setup]
            /// writer.write_all(b"unread").await.0?;
            /// reader.readable().await?;
            /// let (mut std, unread) = reader.into_std().await?;
            /// let mut all = std::io::Cursor::new(unread);
            /// # drop(writer);
            /// let mut text = String::new();
            /// use std::io::Read;
            /// all.chain(&mut std).read_to_string(&mut text)?;
            /// assert_eq!(text, "unread");
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If the connection failed and nothing is left unread, or there is no free descriptor.
            ///
            /// # Cancel safety
            /// Dropped, it closes the connection.
            pub async fn into_std(self) -> std::io::Result<($std, Vec<u8>)> {
                use std::os::fd::AsFd;
                crate::task::budget::proceed().await;
                self.0.writes.settled().await;
                let unread = self.0.reads.take_all().await?;
                let fd = self.as_fd().try_clone_to_owned()?;
                self.0.block()?;
                Ok((fd.into(), unread))
            }

            /// The error that the system has noted since the last call.
            ///
            /// ```
            #[doc = $setup]
            /// assert!(writer.take_error()?.is_none());
            /// # drop(reader);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If the system refuses.
            pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
                self.0.take_error()
            }

            /// Ends one or both directions, at once. (A close by [`futures_io::AsyncWrite`], or the drop
            /// of an owned half, lets writes that were begun go out first.)
            ///
            /// ```
            #[doc = $setup]
            /// writer.shutdown(std::net::Shutdown::Write)?;
            /// assert!(reader.recv().await?.is_none());
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If the connection is gone.
            pub fn shutdown(&self, how: std::net::Shutdown) -> std::io::Result<()> {
                self.0.shutdown(how)
            }
        }

        crate::net::stream::try_from_std!($type, $std);
        crate::net::stream::descriptor!($type, |stream| stream.0.as_fd());
    };
}
pub(super) use whole;

/// What is of std, taken as by `from_std`.
macro_rules! try_from_std {
    ($type:ty, $std:ty) => {
        impl TryFrom<$std> for $type {
            type Error = std::io::Error;

            /// As `from_std`.
            fn try_from(std: $std) -> std::io::Result<Self> {
                Self::from_std(std)
            }
        }
    };
}
pub(crate) use try_from_std;

/// The descriptor, borrowed. It is in blocking mode unless it listens.
macro_rules! descriptor {
    ($type:ident, |$it:ident| $fd:expr) => {
        impl std::os::fd::AsFd for $type {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                let $it = self;
                $fd
            }
        }

        impl std::os::fd::AsRawFd for $type {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                std::os::fd::AsFd::as_fd(self).as_raw_fd()
            }
        }
    };
}
pub(super) use descriptor;
