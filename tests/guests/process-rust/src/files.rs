//! Files: volumes as a container has them.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read, Seek, SeekFrom, Write},
    path::Path,
};

use crate::Result;

// Codes of wasi-libc for which std has no ErrorKind on WASI. It has this one for whatever ends the
// stream to a file.
const STREAM_FAILED: i32 = 29;
const NOT_EMPTY: i32 = 55;

/// Works with `/tmp`, which can be written, and `/etc/config`, which cannot.
pub fn work_as_on_any_system() -> Result {
    println!("config: {}", fs::read_to_string("/etc/config/a.yaml")?);
    println!("below: {}", fs::read_to_string("/etc/config/sub/b.yaml")?);
    expect(
        "a read-only volume",
        ErrorKind::ReadOnlyFilesystem,
        fs::write("/etc/config/new", "x"),
    )?;
    expect("no file", ErrorKind::NotFound, fs::read("/etc/nothing"))?;
    expect(
        "no way out",
        ErrorKind::PermissionDenied,
        fs::read("/../../etc/passwd"),
    )?;
    expect("a folder", ErrorKind::IsADirectory, fs::read("/etc/config"))?;

    fs::create_dir_all("/tmp/deep/er")?;
    let path = Path::new("/tmp/deep/er/file");
    fs::write(path, "one\n")?;
    let mut appended = OpenOptions::new().append(true).open(path)?;
    appended.write_all(b"two\n")?;
    appended.write_all(b"three\n")?;
    drop(appended);

    let mut file = File::options().read(true).write(true).open(path)?;
    file.seek(SeekFrom::Start(4))?;
    file.write_all(b"TWO")?;
    file.rewind()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    println!("text: {text:?}");
    file.set_len(4)?;
    println!("length: {}", file.metadata()?.len());

    fs::rename(path, "/tmp/moved")?;
    expect_code(
        "a folder that is not empty",
        NOT_EMPTY,
        fs::remove_dir("/tmp/deep"),
    )?;
    fs::remove_dir_all("/tmp/deep")?;

    let mut names: Vec<String> = fs::read_dir("/tmp")?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    names.sort();
    println!("left: {names:?}");
    expect_code(
        "a full volume",
        STREAM_FAILED,
        fs::write("/tmp/large", vec![0; 2 << 20]),
    )?;
    Ok(())
}

/// Opens files until the host refuses one.
pub fn open_without_end() -> Result {
    let mut open = Vec::new();
    while let Ok(file) = File::open("/etc/config/a.yaml") {
        open.push(file);
    }
    println!("opened {}", open.len());
    open.pop();
    File::open("/etc/config/a.yaml")?;
    Ok(())
}

fn expect<T>(what: &str, kind: ErrorKind, result: std::io::Result<T>) -> Result {
    match result {
        Err(error) if error.kind() == kind => Ok(()),
        Err(error) => Err(format!("{what}: {error} ({:?})", error.kind()).into()),
        Ok(_) => Err(format!("{what}: no error").into()),
    }
}

fn expect_code<T>(what: &str, code: i32, result: std::io::Result<T>) -> Result {
    match result {
        Err(error) if error.raw_os_error() == Some(code) => Ok(()),
        Err(error) => Err(format!("{what}: {error}, not error {code}").into()),
        Ok(_) => Err(format!("{what}: no error").into()),
    }
}
