//! Files, directories and paths.

use std::fs::FileTimes;
use std::future::poll_fn;
use std::io::SeekFrom;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use filch::fs::{self, DirBuilder, File, OpenOptions};
use futures_lite::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt, StreamExt};

use super::cases;

/// A directory with a file `file`, removed when it is dropped.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name =
            format!("filch-ready-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let dir = Self(std::env::temp_dir().join(name));
        std::fs::create_dir(&dir.0).unwrap();
        std::fs::write(dir.at("file"), [7; 64]).unwrap();
        dir
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file with 64 bytes, to read and to write.
    fn file(&self) -> File {
        let std = std::fs::OpenOptions::new().read(true).write(true).open(self.at("file"));
        File::from_std(std.unwrap()).unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn dir_and_file() -> (Dir, File) {
    let dir = Dir::new();
    let file = dir.file();
    (dir, file)
}

cases! { CASES;
    "fs::File::open": let dir = Dir::new() => File::open(dir.at("file")).await.unwrap();
    "fs::File::create": let dir = Dir::new() => File::create(dir.at("new")).await.unwrap();
    "fs::File::create_new": let dir = Dir::new() => {
        File::create_new(dir.at("file")).await.unwrap_err();
    };
    "fs::OpenOptions::open": let dir = Dir::new() =>
        OpenOptions::new().read(true).open(dir.at("file")).await.unwrap();
    "fs::File::into_std": let dir = Dir::new() => dir.file().into_std().await.unwrap();
    "fs::File::try_clone": let (_dir, file) = dir_and_file() => file.try_clone().await.unwrap();
    "fs::File::metadata": let (_dir, file) = dir_and_file() => file.metadata().await.unwrap();
    "fs::File::set_permissions": let (_dir, file) = dir_and_file() => {
        let permissions = file.metadata().await.unwrap().permissions();
        file.set_permissions(permissions).await.unwrap();
    };
    "fs::File::set_times": let (_dir, file) = dir_and_file() =>
        file.set_times(FileTimes::new().set_modified(SystemTime::now())).await.unwrap();
    "fs::File::set_modified": let (_dir, file) = dir_and_file() =>
        file.set_modified(SystemTime::now()).await.unwrap();
    "fs::File::set_len": let (_dir, file) = dir_and_file() => file.set_len(64).await.unwrap();
    "fs::File::set_len": let (_dir, file) = dir_and_file() => {
        file.set_len(u64::MAX).await.unwrap_err();
    };
    "fs::File::sync_all": let (_dir, file) = dir_and_file() => file.sync_all().await.unwrap();
    "fs::File::sync_data": let (_dir, file) = dir_and_file() => file.sync_data().await.unwrap();
    "fs::File::lock": let (_dir, file) = dir_and_file() => file.lock().await.unwrap();
    "fs::File::lock_shared": let (_dir, file) = dir_and_file() => file.lock_shared().await.unwrap();
    "fs::File::unlock": let (_dir, file) = dir_and_file() => file.unlock().await.unwrap();
    "fs::File::seek": let (_dir, file) = dir_and_file() => {
        file.seek(SeekFrom::Start(7)).await.unwrap();
    };
    "fs::File::rewind": let (_dir, file) = dir_and_file() => file.rewind().await.unwrap();
    "fs::File::stream_position": let (_dir, file) = dir_and_file() =>
        assert_eq!(file.stream_position().await.unwrap(), 0);
    "fs::File::read": let (_dir, file) = dir_and_file() =>
        file.read(vec![0; 8]).await.0.unwrap();
    "fs::File::read_exact": let (_dir, file) = dir_and_file() =>
        file.read_exact(Vec::<u8>::new()).await.0.unwrap();
    "fs::File::read_vectored": let (_dir, file) = dir_and_file() =>
        file.read_vectored(vec![vec![0; 8]]).await.0.unwrap();
    "fs::File::read_at": let (_dir, file) = dir_and_file() =>
        file.read_at(vec![0; 8], 3).await.0.unwrap();
    "fs::File::read_exact_at": let (_dir, file) = dir_and_file() =>
        file.read_exact_at(vec![0; 8], 3).await.0.unwrap();
    "fs::File::read_vectored_at": let (_dir, file) = dir_and_file() =>
        file.read_vectored_at(vec![vec![0; 8]], 3).await.0.unwrap();
    "fs::File::write": let (_dir, file) = dir_and_file() => file.write("").await.0.unwrap();
    "fs::File::write_all": let (_dir, file) = dir_and_file() =>
        file.write_all("").await.0.unwrap();
    "fs::File::write_vectored": let (_dir, file) = dir_and_file() =>
        file.write_vectored(vec!["", ""]).await.0.unwrap();
    "fs::File::write_at": let (_dir, file) = dir_and_file() =>
        file.write_at("bytes", 3).await.0.unwrap();
    "fs::File::write_all_at": let (_dir, file) = dir_and_file() =>
        file.write_all_at("bytes", 3).await.0.unwrap();
    "fs::File::write_vectored_at": let (_dir, file) = dir_and_file() =>
        file.write_vectored_at(vec!["by", "tes"], 3).await.0.unwrap();
    "fs::Read::cancel": let (_dir, file) = dir_and_file() => {
        pin!(file.read_at(vec![0; 8], 3)).cancel().await.0.unwrap_err();
    };
    "fs::ReadVectored::cancel": let (_dir, file) = dir_and_file() => {
        pin!(file.read_vectored_at(vec![vec![0; 8]], 3)).cancel().await.0.unwrap_err();
    };
    "fs::Write::cancel": let (_dir, file) = dir_and_file() => {
        pin!(file.write_at("bytes", 3)).cancel().await.0.unwrap_err();
    };
    "fs::WriteVectored::cancel": let (_dir, file) = dir_and_file() => {
        pin!(file.write_vectored_at(vec!["bytes"], 3)).cancel().await.0.unwrap_err();
    };
    "fs::File: AsyncRead": let (_dir, mut file) = dir_and_file() => {
        AsyncReadExt::read(&mut file, &mut []).await.unwrap();
    };
    "fs::File: AsyncWrite": let (_dir, mut file) = dir_and_file() => {
        AsyncWriteExt::write(&mut file, b"").await.unwrap();
    };
    "fs::File: AsyncWrite": let (_dir, mut file) = dir_and_file() => file.flush().await.unwrap();
    "fs::File: AsyncWrite": let (_dir, mut file) = dir_and_file() => file.close().await.unwrap();
    "fs::File: AsyncSeek": let (_dir, mut file) = dir_and_file() => {
        AsyncSeekExt::seek(&mut file, SeekFrom::Start(7)).await.unwrap();
    };
    "fs::DirBuilder::create": let dir = Dir::new() => {
        DirBuilder::new().create(dir.at("file")).await.unwrap_err();
    };
    "fs::DirBuilder::create": let dir = Dir::new() => {
        DirBuilder::new().create(dir.at("zero\0")).await.unwrap_err();
    };
    "fs::create_dir", "fs::remove_dir": let dir = Dir::new() => {
        fs::create_dir(dir.at("sub")).await.unwrap();
        fs::remove_dir(dir.at("sub")).await.unwrap();
    };
    "fs::create_dir_all", "fs::remove_dir_all": let dir = Dir::new() => {
        fs::create_dir_all(dir.at("sub/sub")).await.unwrap();
        fs::remove_dir_all(dir.at("sub")).await.unwrap();
    };
    "fs::read_dir": let dir = Dir::new() => fs::read_dir(&dir.0).await.unwrap();
    "fs::ReadDir::next_entry": let (_dir, mut entries) = listing().await =>
        entries.next_entry().await.unwrap();
    "fs::ReadDir::poll_next_entry": let (_dir, mut entries) = listing().await =>
        poll_fn(|cx| entries.poll_next_entry(cx)).await.unwrap();
    "fs::ReadDir: Stream": let (_dir, mut entries) = listing().await => entries.next().await;
    "fs::DirEntry::file_type": let (_dir, mut entries) = listing().await => {
        if let Some(entry) = entries.next_entry().await.unwrap() {
            entry.file_type().await.unwrap();
        }
    };
    "fs::DirEntry::metadata": let (_dir, mut entries) = listing().await => {
        if let Some(entry) = entries.next_entry().await.unwrap() {
            entry.metadata().await.unwrap();
        }
    };
    "fs::remove_file": let dir = Dir::new() => fs::remove_file(dir.at("none")).await.unwrap_err();
    "fs::remove_file": let dir = Dir::new() => fs::remove_file(dir.at("zero\0")).await.unwrap_err();
    "fs::rename": let dir = Dir::new() => fs::rename(dir.at("file"), dir.at("file")).await.unwrap();
    "fs::rename": let dir = Dir::new() => fs::rename(dir.at("zero\0"), "").await.unwrap_err();
    "fs::hard_link": let dir = Dir::new() =>
        fs::hard_link(dir.at("file"), dir.at("file")).await.unwrap_err();
    "fs::symlink": let dir = Dir::new() =>
        fs::symlink(dir.at("file"), dir.at("file")).await.unwrap_err();
    "fs::metadata": let dir = Dir::new() => fs::metadata(dir.at("file")).await.unwrap();
    "fs::metadata": let dir = Dir::new() => fs::metadata(dir.at("zero\0")).await.unwrap_err();
    "fs::symlink_metadata": let dir = Dir::new() =>
        fs::symlink_metadata(dir.at("file")).await.unwrap();
    "fs::try_exists": let dir = Dir::new() => assert!(fs::try_exists(dir.at("file")).await.unwrap());
    "fs::exists": let dir = Dir::new() => assert!(fs::exists(dir.at("file")).await);
    "fs::set_permissions": let dir = Dir::new() => {
        let permissions = fs::metadata(dir.at("file")).await.unwrap().permissions();
        fs::set_permissions(dir.at("file"), permissions).await.unwrap();
    };
    "fs::canonicalize": let dir = Dir::new() => fs::canonicalize(&dir.0).await.unwrap();
    "fs::read_link": let dir = Dir::new() => fs::read_link(dir.at("file")).await.unwrap_err();
    "fs::read": let dir = Dir::new() => fs::read(dir.at("file")).await.unwrap();
    "fs::read_to_string": let dir = Dir::new() =>
        fs::read_to_string(dir.at("file")).await.unwrap();
    "fs::write": let dir = Dir::new() => fs::write(dir.at("new"), "").await.unwrap();
    "fs::copy": let dir = Dir::new() => {
        fs::copy(dir.at("file"), dir.at("copy")).await.unwrap();
    };
}

async fn listing() -> (Dir, fs::ReadDir) {
    let dir = Dir::new();
    let entries = fs::read_dir(&dir.0).await.unwrap();
    (dir, entries)
}
