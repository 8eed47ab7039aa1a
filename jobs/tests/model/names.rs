//! Other names of one file: links, a relative path, a way by the folder above; and on a server the name
//! of the queue in the other case.

use std::path::{Path, PathBuf};

use tickwheel_jobs::{Client, OpenError};

use crate::ops::{Name, Task};
use crate::oracle::Outcome;
use crate::world::World;

/// Returns the file by another name. Makes the link that it needs.
pub(crate) fn path_by(path: &Path, name: Name) -> PathBuf {
    let folder = path.parent().expect("the file is in a folder");
    let file = path.file_name().expect("the file has a name");
    match name {
        Name::Own => path.to_owned(),
        Name::Link => linked(path, &folder.join(format!("link-{}", file.display()))),
        Name::InLink => linked(folder, &folder.join("folder")).join(file),
        Name::Relative => {
            let here = std::env::current_dir().expect("the folder of the crate");
            let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
            up.join(path.strip_prefix("/").expect("the path begins at the root"))
        }
        Name::Above => folder.join("..").join(folder.file_name().expect("a name")).join(file),
    }
}

fn linked(to: &Path, link: &Path) -> PathBuf {
    match std::os::unix::fs::symlink(to, link) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => panic!("{error}"),
        _ => link.to_owned(),
    }
}

impl World {
    /// From now on the store is opened by another name. A second runner by that name is refused.
    pub(crate) fn rename(&mut self, name: Name) -> Outcome {
        let place = self.shared.place.clone();
        if place.is_memory() {
            return Ok(());
        }
        self.name = name;
        self.set_other(None);
        if let Some(path) = place.file() {
            let path = path_by(path, name);
            let second = place.builder(name).handle(|_: Task<0>, _| Ok(())).manual();
            match second.map(drop) {
                Err(OpenError::InUse { path: named }) if named == path => {}
                other => return Err(format!("a second runner by the name {path:?}: {other:?}")),
            }
        }
        self.set_other(Some(self.client()));
        Ok(())
    }

    /// Opens the store as another process does, by the name that it has now.
    pub(crate) fn client(&self) -> Client {
        self.shared.place.builder(self.name).client().expect("a client")
    }
}
