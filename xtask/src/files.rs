//! Reads and writes files, with errors that name them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;

/// Whether a chore writes its files or only compares them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// Write what differs.
    Write,
    /// Write nothing; fail if something differs.
    Check,
}

/// Returns the root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Reads a text file.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Writes a text file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Creates a folder and those above it.
pub(crate) fn create_folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|error| format!("cannot create {}: {error}", path.display()))
}

/// Lists the files of a folder that have `extension`, by name.
pub(crate) fn list(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, Failure> {
    let entries =
        fs::read_dir(folder).map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| format!("cannot list {}: {error}", folder.display()))?.path();
        if path.extension().is_some_and(|found| found == extension) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("cannot run {program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program} failed: {status}")) }
}

/// Brings one file to `text`, or in `Mode::Check` only says whether it differs.
pub(crate) fn update(path: &Path, text: &str, mode: Mode) -> Result<bool, Failure> {
    if fs::read_to_string(path).is_ok_and(|found| found == text) {
        return Ok(false);
    }
    if mode == Mode::Write {
        write(path, text)?;
    }
    Ok(true)
}
