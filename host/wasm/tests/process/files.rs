//! Tests of the files of a process.

use std::collections::BTreeMap;

use operetta_wasm::process::{EmptyDir, ExitReason, Files, ProcessConfig, Projected};

use crate::{Guest, completes, completes_with, start};

fn projected(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    let entry = |(name, text): &(&str, &str)| ((*name).to_owned(), text.as_bytes().to_vec());
    files.iter().map(entry).collect()
}

/// Functions that take a path below `/` with its length.
const OPEN: &str = "
    (func $open (param $path i32) (param $length i32) (param $how i32) (param $rights i64) (param $flags i32) (result i32)
        (local $errno i32)
        (local.set $errno (call $path_open (i32.const 3) (i32.const 0) (local.get $path) (local.get $length)
            (local.get $how) (local.get $rights) (i64.const 0) (local.get $flags) (i32.const 44)))
        (if (result i32) (local.get $errno)
            (then (i32.sub (i32.const 0) (local.get $errno)))
            (else (i32.load (i32.const 44)))))";

/// A guest with the paths at 4096, 4160 and so on.
fn guest(paths: &[&str], body: &str) -> Guest {
    let guest = Guest::new(body).with(OPEN);
    (0..).zip(paths).fold(guest, |guest, (index, path)| {
        guest.text(4096 + 64 * index, path)
    })
}

fn config(files: Files) -> ProcessConfig {
    ProcessConfig {
        files,
        ..ProcessConfig::default()
    }
}

#[tokio::test]
async fn config_map_is_read() {
    let mut files = Files::default();
    let volume = Projected::new(projected(&[("a.yaml", "hello"), ("sub/b", "")])).expect("valid");
    files.mount("/etc/config", &volume, "").expect("mounted");
    let body = "
        (call $check (call $fd_prestat_get (i32.const 3) (i32.const 4500)) (i32.const 0) (i32.const 1))
        (call $check (i32.load8_u (i32.const 4500)) (i32.const 0) (i32.const 2))
        (call $check (i32.load (i32.const 4504)) (i32.const 1) (i32.const 3))
        (call $check (call $fd_prestat_dir_name (i32.const 3) (i32.const 4500) (i32.const 1)) (i32.const 0) (i32.const 4))
        (call $check (i32.load8_u (i32.const 4500)) (i32.const 47) (i32.const 5))
        (call $check (call $open (i32.const 4096) (i32.const 17) (i32.const 0) (i64.const 2) (i32.const 0)) (i32.const 4) (i32.const 6))
        (call $check (call $read (i32.const 4) (i32.const 5000) (i32.const 3)) (i32.const 3) (i32.const 7))
        (call $check (call $fd_tell (i32.const 4) (i32.const 4500)) (i32.const 0) (i32.const 8))
        (call $check (i32.load (i32.const 4500)) (i32.const 3) (i32.const 9))
        (call $check (call $read (i32.const 4) (i32.const 5000) (i32.const 9)) (i32.const 2) (i32.const 10))
        (call $check (call $read (i32.const 4) (i32.const 5000) (i32.const 9)) (i32.const 0) (i32.const 11))
        (call $check (call $fd_seek (i32.const 4) (i64.const -4) (i32.const 2) (i32.const 4500)) (i32.const 0) (i32.const 12))
        (call $check (i32.load (i32.const 4500)) (i32.const 1) (i32.const 13))
        (call $check (call $fd_seek (i32.const 4) (i64.const -6) (i32.const 2) (i32.const 4500)) (i32.const 28) (i32.const 14))
        (call $check (call $fd_seek (i32.const 4) (i64.const 0) (i32.const 3) (i32.const 4500)) (i32.const 28) (i32.const 15))
        (call $buffer (i32.const 5000) (i32.const 4))
        (call $check (call $fd_pread (i32.const 4) (i32.const 16) (i32.const 1) (i64.const 1) (i32.const 32)) (i32.const 0) (i32.const 16))
        (call $check (i32.load (i32.const 5000)) (i32.const 0x6f6c6c65) (i32.const 17))
        (call $check (call $fd_pread (i32.const 4) (i32.const 16) (i32.const 1) (i64.const -1) (i32.const 32)) (i32.const 0) (i32.const 18))
        (call $check (i32.load (i32.const 32)) (i32.const 0) (i32.const 19))
        ;; It cannot be written.
        (call $check (call $write (i32.const 4) (i32.const 5000) (i32.const 1)) (i32.const -8) (i32.const 20))
        (call $check (call $open (i32.const 4096) (i32.const 17) (i32.const 0) (i64.const 64) (i32.const 0)) (i32.const -69) (i32.const 21))
        (call $check (call $open (i32.const 4096) (i32.const 17) (i32.const 8) (i64.const 2) (i32.const 0)) (i32.const -69) (i32.const 22))
        (call $check (call $path_unlink_file (i32.const 3) (i32.const 4096) (i32.const 17)) (i32.const 69) (i32.const 23))
        (call $check (call $fd_filestat_set_size (i32.const 4) (i64.const 0)) (i32.const 8) (i32.const 24))
        (call $check (call $fd_filestat_set_times (i32.const 4) (i64.const 0) (i64.const 7) (i32.const 4)) (i32.const 69) (i32.const 38))
        ;; Its type and size.
        (call $check (call $path_filestat_get (i32.const 3) (i32.const 0) (i32.const 4096) (i32.const 17) (i32.const 4500)) (i32.const 0) (i32.const 25))
        (call $check (i32.load8_u (i32.const 4516)) (i32.const 4) (i32.const 26))
        (call $check (i32.load (i32.const 4532)) (i32.const 5) (i32.const 27))
        (call $check (call $fd_filestat_get (i32.const 3) (i32.const 4500)) (i32.const 0) (i32.const 28))
        (call $check (i32.load8_u (i32.const 4516)) (i32.const 3) (i32.const 29))
        ;; What is not there, and what is no folder.
        (call $check (call $open (i32.const 4160) (i32.const 13) (i32.const 0) (i64.const 2) (i32.const 0)) (i32.const -44) (i32.const 30))
        (call $check (call $open (i32.const 4096) (i32.const 17) (i32.const 2) (i64.const 2) (i32.const 0)) (i32.const -54) (i32.const 31))
        (call $check (call $path_readlink (i32.const 3) (i32.const 4096) (i32.const 17) (i32.const 4500) (i32.const 9) (i32.const 32)) (i32.const 28) (i32.const 32))
        (call $check (call $path_readlink (i32.const 3) (i32.const 4160) (i32.const 13) (i32.const 4500) (i32.const 9) (i32.const 32)) (i32.const 44) (i32.const 33))
        ;; Out of the tree.
        (call $check (call $open (i32.const 4224) (i32.const 13) (i32.const 0) (i64.const 2) (i32.const 0)) (i32.const -63) (i32.const 34))
        (call $check (call $open (i32.const 4288) (i32.const 11) (i32.const 0) (i64.const 2) (i32.const 0)) (i32.const -63) (i32.const 35))
        (call $check (call $open (i32.const 4352) (i32.const 17) (i32.const 2) (i64.const 2) (i32.const 0)) (i32.const 5) (i32.const 36))
        (call $check (call $path_open (i32.const 5) (i32.const 0) (i32.const 4416) (i32.const 5) (i32.const 0) (i64.const 2) (i64.const 0)
            (i32.const 0) (i32.const 44)) (i32.const 63) (i32.const 37))";
    let paths = [
        "etc/config/a.yaml",
        "etc/config/no",
        "etc/../../etc",
        "/etc/passwd",
        "./etc//config/sub",
        "../..",
    ];
    completes_with(guest(&paths, body), config(files)).await;
}

#[tokio::test]
async fn folder_is_listed_in_pieces() {
    let mut files = Files::default();
    let names: Vec<(String, Vec<u8>)> = (0..100)
        .map(|number| (format!("file-{number:03}"), vec![]))
        .collect();
    let volume = Projected::new(names.into_iter().collect()).expect("valid");
    files.mount("/d", &volume, "").expect("mounted");
    // Each entry has 24 + 8 bytes. A buffer of 80 has two and a part of the third, which is read
    // again with the next one.
    let body = "(local $count i32) (local $used i32) (local $cookie i64)
        (call $check (call $open (i32.const 4096) (i32.const 1) (i32.const 2) (i64.const 2) (i32.const 0)) (i32.const 4) (i32.const 1))
        (loop $again
            (call $check (call $fd_readdir (i32.const 4) (i32.const 5000) (i32.const 80) (local.get $cookie) (i32.const 32)) (i32.const 0) (i32.const 2))
            (local.set $used (i32.load (i32.const 32)))
            (if (i32.ge_u (local.get $used) (i32.const 32)) (then
                (local.set $count (i32.add (local.get $count) (i32.const 1)))
                (call $check (i32.load (i32.const 5016)) (i32.const 8) (i32.const 3))
                (call $check (i32.load8_u (i32.const 5020)) (i32.const 4) (i32.const 4))
                (local.set $cookie (i64.load (i32.const 5000)))))
            (if (i32.ge_u (local.get $used) (i32.const 64)) (then
                (local.set $count (i32.add (local.get $count) (i32.const 1)))
                (local.set $cookie (i64.load (i32.const 5032)))))
            (br_if $again (i32.eq (local.get $used) (i32.const 80))))
        (call $check (local.get $count) (i32.const 100) (i32.const 5))
        (call $check (call $fd_readdir (i32.const 4) (i32.const 5000) (i32.const 0) (i64.const 0) (i32.const 32)) (i32.const 0) (i32.const 6))
        (call $check (call $fd_readdir (i32.const 1) (i32.const 5000) (i32.const 9) (i64.const 0) (i32.const 32)) (i32.const 54) (i32.const 7))";
    completes_with(guest(&["d"], body), config(files)).await;
}

#[tokio::test]
async fn empty_dir_is_written() {
    let volume = EmptyDir::new(100, 10);
    let mut files = Files::default();
    files.mount_empty_dir("/tmp", &volume, "").expect("mounted");
    let body = "
        ;; Created exclusively, once.
        (call $check (call $open (i32.const 4096) (i32.const 5) (i32.const 5) (i64.const 66) (i32.const 0)) (i32.const 4) (i32.const 1))
        (call $check (call $open (i32.const 4096) (i32.const 5) (i32.const 5) (i64.const 66) (i32.const 0)) (i32.const -20) (i32.const 2))
        (call $check (call $write (i32.const 4) (i32.const 4096) (i32.const 5)) (i32.const 5) (i32.const 3))
        ;; Appends wherever it is.
        (call $check (call $open (i32.const 4096) (i32.const 5) (i32.const 0) (i64.const 66) (i32.const 1)) (i32.const 5) (i32.const 4))
        (call $check (call $write (i32.const 5) (i32.const 4096) (i32.const 5)) (i32.const 5) (i32.const 5))
        (call $check (call $fd_fdstat_get (i32.const 5) (i32.const 4500)) (i32.const 0) (i32.const 6))
        (call $check (i32.load16_u (i32.const 4502)) (i32.const 1) (i32.const 7))
        (call $check (call $fd_filestat_get (i32.const 4) (i32.const 4500)) (i32.const 0) (i32.const 8))
        (call $check (i32.load (i32.const 4532)) (i32.const 10) (i32.const 9))
        ;; Written at an offset, which leaves zeros before it.
        (call $buffer (i32.const 4096) (i32.const 5))
        (call $check (call $fd_pwrite (i32.const 4) (i32.const 16) (i32.const 1) (i64.const 20) (i32.const 32)) (i32.const 0) (i32.const 10))
        (call $check (call $fd_pwrite (i32.const 4) (i32.const 16) (i32.const 1) (i64.const 96) (i32.const 32)) (i32.const 51) (i32.const 11))
        (call $check (call $fd_pwrite (i32.const 4) (i32.const 16) (i32.const 1) (i64.const -2) (i32.const 32)) (i32.const 51) (i32.const 12))
        (call $check (call $fd_filestat_set_size (i32.const 4) (i64.const 1000000000000)) (i32.const 51) (i32.const 13))
        (call $check (call $fd_filestat_set_size (i32.const 4) (i64.const 3)) (i32.const 0) (i32.const 14))
        (call $check (call $fd_filestat_set_times (i32.const 4) (i64.const 0) (i64.const 77) (i32.const 4)) (i32.const 0) (i32.const 15))
        (call $check (call $fd_filestat_get (i32.const 4) (i32.const 4500)) (i32.const 0) (i32.const 16))
        (call $check (i32.load (i32.const 4532)) (i32.const 3) (i32.const 17))
        (call $check (i32.load (i32.const 4548)) (i32.const 77) (i32.const 18))
        ;; Moved into a folder, and removed from it.
        (call $check (call $path_create_directory (i32.const 3) (i32.const 4160) (i32.const 5)) (i32.const 0) (i32.const 19))
        (call $check (call $path_create_directory (i32.const 3) (i32.const 4160) (i32.const 5)) (i32.const 20) (i32.const 20))
        (call $check (call $path_rename (i32.const 3) (i32.const 4096) (i32.const 5) (i32.const 3) (i32.const 4224) (i32.const 7)) (i32.const 0) (i32.const 21))
        (call $check (call $path_filestat_set_times (i32.const 3) (i32.const 0) (i32.const 4224) (i32.const 7) (i64.const 0) (i64.const 78) (i32.const 4)) (i32.const 0) (i32.const 22))
        (call $check (call $path_remove_directory (i32.const 3) (i32.const 4160) (i32.const 5)) (i32.const 55) (i32.const 23))
        (call $check (call $path_unlink_file (i32.const 3) (i32.const 4160) (i32.const 5)) (i32.const 31) (i32.const 24))
        (call $check (call $path_unlink_file (i32.const 3) (i32.const 4224) (i32.const 7)) (i32.const 0) (i32.const 25))
        (call $check (call $path_unlink_file (i32.const 3) (i32.const 4224) (i32.const 7)) (i32.const 44) (i32.const 26))
        (call $check (call $path_remove_directory (i32.const 3) (i32.const 4160) (i32.const 5)) (i32.const 0) (i32.const 27))
        (call $check (call $path_remove_directory (i32.const 3) (i32.const 4288) (i32.const 3)) (i32.const 10) (i32.const 28))
        ;; It is open, and can be read.
        (call $check (call $fd_seek (i32.const 4) (i64.const 0) (i32.const 0) (i32.const 4500)) (i32.const 0) (i32.const 29))
        (call $check (call $read (i32.const 4) (i32.const 5000) (i32.const 9)) (i32.const 3) (i32.const 30))
        ;; Where nothing is mounted, nothing can be written.
        (call $check (call $open (i32.const 4352) (i32.const 1) (i32.const 1) (i64.const 66) (i32.const 0)) (i32.const -69) (i32.const 31))
        (call $check (call $path_create_directory (i32.const 3) (i32.const 4352) (i32.const 1)) (i32.const 69) (i32.const 32))
        (call $check (call $fd_renumber (i32.const 4) (i32.const 5)) (i32.const 0) (i32.const 33))
        (call $check (call $fd_close (i32.const 4)) (i32.const 8) (i32.const 34))
        (call $check (call $fd_close (i32.const 5)) (i32.const 0) (i32.const 35))";
    let paths = ["tmp/a", "tmp/d", "tmp/d/b", "tmp", "x"];
    completes_with(guest(&paths, body), config(files)).await;
    assert_eq!(volume.used_bytes(), 0);
}

#[tokio::test]
async fn empty_dir_outlives_the_process() {
    let volume = EmptyDir::new(100, 10);
    let mut files = Files::default();
    files.mount_empty_dir("/tmp", &volume, "").expect("mounted");
    let write = "
        (call $check (call $open (i32.const 4096) (i32.const 5) (i32.const 1) (i64.const 66) (i32.const 0)) (i32.const 4) (i32.const 1))
        (call $check (call $write (i32.const 4) (i32.const 4096) (i32.const 5)) (i32.const 5) (i32.const 2))";
    completes_with(guest(&["tmp/a"], write), config(files.clone())).await;
    assert_eq!(volume.used_bytes(), 5);
    let read = "
        (call $check (call $open (i32.const 4096) (i32.const 5) (i32.const 0) (i64.const 2) (i32.const 0)) (i32.const 4) (i32.const 1))
        (call $check (call $read (i32.const 4) (i32.const 5000) (i32.const 9)) (i32.const 5) (i32.const 2))";
    completes_with(guest(&["tmp/a"], read), config(files)).await;
}

/// A guest reads the token again until it is the new one, as client-go does.
#[tokio::test]
async fn replaced_files_are_seen_by_a_running_process() {
    let volume = Projected::new(projected(&[("token", "old")])).expect("valid");
    let mut files = Files::default();
    files.mount("/secret", &volume, "").expect("mounted");
    let body = "(local $fd i32) (local $kept i32)
        (local.set $kept (call $open (i32.const 4096) (i32.const 12) (i32.const 0) (i64.const 2) (i32.const 0)))
        (loop $again
            (local.set $fd (call $open (i32.const 4096) (i32.const 12) (i32.const 0) (i64.const 2) (i32.const 0)))
            (call $check (call $read (local.get $fd) (i32.const 5000) (i32.const 9)) (i32.const 3) (i32.const 1))
            (call $check (call $fd_close (local.get $fd)) (i32.const 0) (i32.const 2))
            (if (i32.eq (i32.load8_u (i32.const 5000)) (i32.const 111)) (then (call $sleep (i64.const 5)) (br $again))))
        ;; n, and still o where it was opened before.
        (call $check (i32.load8_u (i32.const 5000)) (i32.const 110) (i32.const 3))
        (call $check (call $read (local.get $kept) (i32.const 5000) (i32.const 9)) (i32.const 3) (i32.const 4))
        (call $check (i32.load8_u (i32.const 5000)) (i32.const 111) (i32.const 5))";
    let started = start(&guest(&["secret/token"], body), config(files)).await;
    while started.process.stats().polls == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    volume
        .replace(projected(&[("token", "new")]))
        .expect("valid");
    let (exit, logs) = started.ended().await;
    assert_eq!(exit.reason, ExitReason::Completed, "{exit:?} {logs:?}");
}

#[tokio::test]
async fn process_without_files_has_an_empty_root() {
    let body = "
        (call $check (call $fd_readdir (i32.const 3) (i32.const 5000) (i32.const 99) (i64.const 0) (i32.const 32)) (i32.const 0) (i32.const 1))
        (call $check (i32.load (i32.const 32)) (i32.const 0) (i32.const 2))
        (call $check (call $open (i32.const 4096) (i32.const 1) (i32.const 0) (i64.const 2) (i32.const 0)) (i32.const -44) (i32.const 3))
        (call $check (call $open (i32.const 4160) (i32.const 1) (i32.const 2) (i64.const 2) (i32.const 0)) (i32.const 4) (i32.const 4))
        (call $check (call $fd_prestat_get (i32.const 4) (i32.const 5000)) (i32.const 8) (i32.const 5))";
    completes(guest(&["x", "."], body)).await;
}
