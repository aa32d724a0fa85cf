//! How sockets look to `futures-io`.
