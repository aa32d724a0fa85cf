//! Files and directories.
//!
//! As std has them, with `await`. Reads and writes own their buffers while they are under way and give
//! them back with the result: `let (result, buffer) = file.read_at(buffer, offset).await`. So they
//! are safe to drop at any moment.
//!
//! What is in memory is read at once, on the thread that asks. Everything else is left to the kernel's ring,
//! or where there is none, or it has no such operation, to threads that may block.
//!
//! No operation tells of a signal: what is interrupted (`EINTR`) is done again.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `file`, `open` | what do users see? |
//! | `handle` | what do clones share, and where is the cursor? |
//! | `transfer`, `area` | how are bytes moved, and what becomes of a dropped write? |
//! | `poll` | how does a file look to `futures-io`? |
//! | `lock` | who may use a file? |
//! | `pipe` | how is a named pipe opened without a thread that waits? |
//! | `ask` | how is one thing asked of the kernel? |
//! | `paths`, `dir`, `metadata` | what is there, and what is it called? |
//! | `whole` | how is a file read or written at once? |

mod area;
mod ask;
mod dir;
mod file;
mod handle;
mod lock;
mod metadata;
mod open;
mod paths;
mod pipe;
mod poll;
mod transfer;
mod whole;

pub use dir::{
    DirBuilder, DirEntry, ReadDir, create_dir, create_dir_all, read_dir, remove_dir_all,
};
pub use file::File;
pub use metadata::{FileType, Metadata};
pub use open::OpenOptions;
pub use paths::{
    canonicalize, exists, hard_link, metadata, read_link, remove_dir, remove_file, rename,
    set_permissions, symlink, symlink_metadata, try_exists,
};
pub use transfer::{Read, ReadVectored, Write, WriteVectored};
pub use whole::{copy, read, read_to_string, write};
