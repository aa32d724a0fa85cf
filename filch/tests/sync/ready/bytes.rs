//! Streams that lie in memory.

use filch::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, Cursor, copy, copy_bidirectional, empty, repeat,
    sink,
};

use super::cases;

cases! { CASES;
    "io::copy": let mut written = Vec::new() => {
        written.clear();
        copy(Cursor::new("bytes"), &mut written).await.unwrap();
    };
    "io::copy_bidirectional": let mut ends = (Cursor::new(Vec::new()), Cursor::new(Vec::new())) => {
        copy_bidirectional(&mut ends.0, &mut ends.1).await.unwrap();
    };
    "io::Empty: AsyncRead": let mut nothing = empty() =>
        assert_eq!(nothing.read(&mut [0; 8]).await.unwrap(), 0);
    "io::Empty: AsyncBufRead": let mut nothing = empty() =>
        assert_eq!(nothing.fill_buf().await.unwrap(), []);
    "io::Repeat: AsyncRead": let mut bytes = repeat(7) =>
        assert_eq!(bytes.read(&mut [0; 8]).await.unwrap(), 8);
    "io::Sink: AsyncWrite": let mut bytes = sink() => {
        assert_eq!(bytes.write(&[0; 8]).await.unwrap(), 8);
    };
}
