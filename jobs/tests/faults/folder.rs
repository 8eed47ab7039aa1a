//! A folder of its own for each test, deleted at the end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tickwheel-jobs-{name}-{}-{n}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("there is room for temporary files");
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the bytes of each file.
    pub(crate) fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let files = std::fs::read_dir(&self.0).expect("the folder is there");
        let paths = files.map(|entry| entry.expect("the folder can be read").path());
        let files = paths.filter(|path| path.is_file());
        files.map(|path| (path.clone(), std::fs::read(path).expect("it can be read"))).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
