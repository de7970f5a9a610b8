//! Tests of bad input to host functions: each is an error number, and the guest goes on.

use operetta_wasm::process::ProcessConfig;

use crate::{Guest, completes, completes_with};

/// The size of a guest's memory in bytes.
const END: u32 = 2 << 16;

/// Calls with pointers that are out of bounds in different ways, each FAULT (21).
#[tokio::test]
async fn pointers_out_of_bounds_are_faults() {
    let mut body = String::from("(call $buffer (i32.const 4096) (i32.const 16))");
    let pointers = [END, END - 1, 0x7fff_ffff, 0xffff_fff0, 0xffff_ffff];
    for (number, at) in (1..).zip(pointers) {
        for call in [
            format!("(call $args_sizes_get (i32.const {at}) (i32.const 32))"),
            format!("(call $environ_sizes_get (i32.const 32) (i32.const {at}))"),
            format!("(call $args_get (i32.const {at}) (i32.const 4096))"),
            format!("(call $args_get (i32.const 4096) (i32.const {at}))"),
            format!("(call $clock_time_get (i32.const 0) (i64.const 0) (i32.const {at}))"),
            format!("(call $clock_res_get (i32.const 1) (i32.const {at}))"),
            format!("(call $fd_fdstat_get (i32.const 1) (i32.const {at}))"),
            format!("(call $fd_filestat_get (i32.const 1) (i32.const {at}))"),
            format!("(call $fd_prestat_get (i32.const 3) (i32.const {at}))"),
            format!("(call $fd_read (i32.const 0) (i32.const {at}) (i32.const 1) (i32.const 32))"),
            format!("(call $fd_read (i32.const 0) (i32.const 16) (i32.const 1) (i32.const {at}))"),
            format!("(call $fd_write (i32.const 1) (i32.const {at}) (i32.const 1) (i32.const 32))"),
            format!("(call $fd_write (i32.const 1) (i32.const 16) (i32.const 1) (i32.const {at}))"),
            format!(
                "(call $fd_readdir (i32.const 3) (i32.const {at}) (i32.const 9) (i64.const 0) (i32.const 32))"
            ),
            format!(
                "(call $fd_readdir (i32.const 3) (i32.const 4096) (i32.const 9) (i64.const 0) (i32.const {at}))"
            ),
            format!(
                "(call $path_open (i32.const 3) (i32.const 0) (i32.const {at}) (i32.const 9) (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 32))"
            ),
            format!(
                "(call $path_filestat_get (i32.const 3) (i32.const 0) (i32.const {at}) (i32.const 9) (i32.const 4096))"
            ),
            format!(
                "(call $poll_oneoff (i32.const {at}) (i32.const 256) (i32.const 1) (i32.const 36))"
            ),
            format!(
                "(call $poll_oneoff (i32.const 64) (i32.const {at}) (i32.const 1) (i32.const 36))"
            ),
            format!(
                "(call $poll_oneoff (i32.const 64) (i32.const 256) (i32.const 1) (i32.const {at}))"
            ),
            format!("(call $random_get (i32.const {at}) (i32.const 8))"),
            format!(
                "(call $random_get (i32.const 8) (i32.const {}))",
                0xffff_fff0_u32
            ),
            format!("(i32.sub (i32.const 0) (call $dial (i32.const {at}) (i32.const 9)))"),
            format!("(i32.sub (i32.const 0) (call $resolve (i32.const {at}) (i32.const 9)))"),
            format!(
                "(i32.sub (i32.const 0) (call $listen (i32.const 6000) (i32.const 12) (i32.const {at})))"
            ),
        ] {
            body += &format!("(call $check {call} (i32.const 21) (i32.const {number}))\n");
        }
        // A buffer out of bounds in a list that is not.
        body += &format!(
            "(call $check (call $read (i32.const 0) (i32.const {at}) (i32.const 9)) (i32.const -21) (i32.const 50))
             (call $check (call $write (i32.const 1) (i32.const {at}) (i32.const 9)) (i32.const -21) (i32.const 51))
             ;; Cut to the most of one write, which is longer than the memory.
             (call $check (call $write (i32.const 1) (i32.const 4096) (i32.const {at})) (i32.const -21) (i32.const 52))
             (call $buffer (i32.const 4096) (i32.const 16))"
        );
    }
    let config = ProcessConfig {
        args: vec!["an argument".to_owned()],
        ..ProcessConfig::default()
    };
    completes_with(Guest::new(&body).text(6000, "127.0.0.1:80"), config).await;
}

#[tokio::test]
async fn huge_counts_are_refused() {
    completes(Guest::new(
        "(call $check (call $fd_write (i32.const 1) (i32.const 16) (i32.const 1025) (i32.const 32)) (i32.const 28) (i32.const 1))
         (call $check (call $fd_write (i32.const 1) (i32.const 16) (i32.const -1) (i32.const 32)) (i32.const 28) (i32.const 2))
         (call $check (call $fd_read (i32.const 0) (i32.const 16) (i32.const 0x20000001) (i32.const 32)) (i32.const 28) (i32.const 3))
         (call $check (call $fd_read (i32.const 0) (i32.const 0x1ff00) (i32.const 1024) (i32.const 32)) (i32.const 21) (i32.const 4))
         (call $check (call $fd_write (i32.const 1) (i32.const 16) (i32.const 0) (i32.const 32)) (i32.const 0) (i32.const 5))
         (call $check (i32.load (i32.const 32)) (i32.const 0) (i32.const 6))
         (call $check (call $poll_oneoff (i32.const 64) (i32.const 256) (i32.const 65537) (i32.const 36)) (i32.const 28) (i32.const 7))
         (call $check (call $poll_oneoff (i32.const 64) (i32.const 256) (i32.const -1) (i32.const 36)) (i32.const 28) (i32.const 8))
         (call $check (call $path_create_directory (i32.const 3) (i32.const 0) (i32.const 4097)) (i32.const 37) (i32.const 9))
         (call $check (call $dial (i32.const 0) (i32.const 321)) (i32.const -37) (i32.const 10))",
    ))
    .await;
}

/// Each function that takes a descriptor, with numbers that are not open.
#[tokio::test]
async fn descriptors_that_are_not_open_are_bad() {
    let mut body = String::new();
    for (number, fd) in (1..).zip([4, 5, 4096, 0x7fff_ffff_u32, 0x8000_0000, 0xffff_ffff]) {
        for call in [
            "(call $fd_read FD (i32.const 16) (i32.const 1) (i32.const 32))",
            "(call $fd_write FD (i32.const 16) (i32.const 1) (i32.const 32))",
            "(call $fd_pread FD (i32.const 16) (i32.const 1) (i64.const 0) (i32.const 32))",
            "(call $fd_pwrite FD (i32.const 16) (i32.const 1) (i64.const 0) (i32.const 32))",
            "(call $fd_close FD)",
            "(call $fd_sync FD)",
            "(call $fd_datasync FD)",
            "(call $fd_advise FD (i64.const 0) (i64.const 0) (i32.const 0))",
            "(call $fd_allocate FD (i64.const 0) (i64.const 0))",
            "(call $fd_fdstat_get FD (i32.const 4096))",
            "(call $fd_fdstat_set_flags FD (i32.const 4))",
            "(call $fd_fdstat_set_rights FD (i64.const 0) (i64.const 0))",
            "(call $fd_filestat_get FD (i32.const 4096))",
            "(call $fd_filestat_set_size FD (i64.const 0))",
            "(call $fd_filestat_set_times FD (i64.const 0) (i64.const 0) (i32.const 4))",
            "(call $fd_prestat_get FD (i32.const 4096))",
            "(call $fd_prestat_dir_name FD (i32.const 4096) (i32.const 9))",
            "(call $fd_readdir FD (i32.const 4096) (i32.const 9) (i64.const 0) (i32.const 32))",
            "(call $fd_renumber FD (i32.const 1))",
            "(call $fd_renumber (i32.const 1) FD)",
            "(call $fd_seek FD (i64.const 0) (i32.const 0) (i32.const 32))",
            "(call $fd_tell FD (i32.const 32))",
            "(call $path_create_directory FD (i32.const 4096) (i32.const 1))",
            "(call $path_open FD (i32.const 0) (i32.const 4096) (i32.const 1) (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 32))",
            "(call $path_readlink FD (i32.const 4096) (i32.const 1) (i32.const 4096) (i32.const 1) (i32.const 32))",
            "(call $path_rename (i32.const 3) (i32.const 4096) (i32.const 1) FD (i32.const 4096) (i32.const 1))",
            "(call $path_unlink_file FD (i32.const 4096) (i32.const 1))",
            "(call $sock_accept FD (i32.const 0) (i32.const 32))",
            "(call $sock_recv FD (i32.const 16) (i32.const 1) (i32.const 0) (i32.const 32) (i32.const 36))",
            "(call $sock_send FD (i32.const 16) (i32.const 1) (i32.const 0) (i32.const 32))",
            "(call $sock_shutdown FD (i32.const 3))",
            "(call $dialled FD (i32.const 4096))",
            "(call $addresses FD (i32.const 4096) (i32.const 4096))",
            "(call $wait (i32.const 1) FD)",
            "(call $wait (i32.const 2) FD)",
        ] {
            let call = call.replace("FD", &format!("(i32.const {fd})"));
            body += &format!("(call $check {call} (i32.const 8) (i32.const {number}))\n");
        }
    }
    completes(Guest::new(&body).text(4096, "x")).await;
}

#[tokio::test]
async fn descriptors_have_a_limit() {
    let body = "
        (call $check (call $resolve (i32.const 4096) (i32.const 9)) (i32.const 4) (i32.const 1))
        (call $check (call $resolve (i32.const 4096) (i32.const 9)) (i32.const 5) (i32.const 2))
        ;; MFILE from everything that opens.
        (call $check (call $resolve (i32.const 4096) (i32.const 9)) (i32.const -33) (i32.const 3))
        (call $check (call $dial (i32.const 4112) (i32.const 11)) (i32.const -33) (i32.const 4))
        (call $check (call $listen (i32.const 4128) (i32.const 5) (i32.const 4096)) (i32.const -33) (i32.const 5))
        (call $check (call $signals) (i32.const -33) (i32.const 6))
        (call $check (call $path_open (i32.const 3) (i32.const 0) (i32.const 4144) (i32.const 1) (i32.const 2)
            (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 32)) (i32.const 33) (i32.const 7))
        (call $check (call $fd_close (i32.const 4)) (i32.const 0) (i32.const 8))
        (call $check (call $fd_close (i32.const 4)) (i32.const 8) (i32.const 9))
        (call $check (call $signals) (i32.const 4) (i32.const 10))";
    let config = ProcessConfig {
        max_descriptors: 6,
        ..ProcessConfig::default()
    };
    let guest = Guest::new(body)
        .text(4096, "localhost")
        .text(4112, "10.0.0.1:80")
        .text(4128, ":8080")
        .text(4144, ".");
    completes_with(guest, config).await;
}

#[tokio::test]
async fn connection_beyond_the_limit_waits_to_be_accepted() {
    let body = "
        (call $check (call $listen (i32.const 4096) (i32.const 5) (i32.const 4128)) (i32.const 4) (i32.const 1))
        (call $check (call $dial (i32.const 4096) (i32.const 5)) (i32.const 5) (i32.const 2))
        (call $check (call $sock_accept (i32.const 4) (i32.const 4) (i32.const 32)) (i32.const 33) (i32.const 3))
        (call $check (call $wait (i32.const 1) (i32.const 4)) (i32.const 0) (i32.const 4))
        (call $check (call $fd_close (i32.const 0)) (i32.const 0) (i32.const 5))
        (call $check (call $sock_accept (i32.const 4) (i32.const 4) (i32.const 32)) (i32.const 0) (i32.const 6))
        (call $check (i32.load (i32.const 32)) (i32.const 0) (i32.const 7))
        (call $check (call $fd_close (i32.const 5)) (i32.const 0) (i32.const 8))
        (call $check (call $sock_accept (i32.const 4) (i32.const 4) (i32.const 32)) (i32.const 6) (i32.const 9))";
    let config = ProcessConfig {
        max_descriptors: 6,
        ..ProcessConfig::default()
    };
    completes_with(Guest::new(body).text(4096, ":8080"), config).await;
}

#[tokio::test]
async fn arguments_and_environment_are_those_of_the_container() {
    let body = r#"
        (call $check (call $args_sizes_get (i32.const 32) (i32.const 36)) (i32.const 0) (i32.const 1))
        (call $check (i32.load (i32.const 32)) (i32.const 2) (i32.const 2))
        (call $check (i32.load (i32.const 36)) (i32.const 6) (i32.const 3))
        (call $check (call $args_get (i32.const 4096) (i32.const 4200)) (i32.const 0) (i32.const 4))
        (call $check (i32.load (i32.const 4100)) (i32.const 4203) (i32.const 5))
        ;; "/m", 0, "-x", 0
        (call $check (i32.load (i32.const 4200)) (i32.const 0x2d006d2f) (i32.const 6))
        (call $check (i32.load16_u (i32.const 4204)) (i32.const 0x0078) (i32.const 7))
        (call $check (call $environ_sizes_get (i32.const 32) (i32.const 36)) (i32.const 0) (i32.const 8))
        (call $check (i32.load (i32.const 36)) (i32.const 4) (i32.const 9))
        (call $check (call $environ_get (i32.const 4096) (i32.const 4200)) (i32.const 0) (i32.const 10))
        ;; "A=b", 0
        (call $check (i32.load (i32.const 4200)) (i32.const 0x00623d41) (i32.const 11))
        ;; The texts reach over the end.
        (call $check (call $args_get (i32.const 4096) (i32.const 0x1fffb)) (i32.const 21) (i32.const 12))"#;
    let config = ProcessConfig {
        args: vec!["/m".to_owned(), "-x\0hidden".to_owned()],
        env: vec![("A".to_owned(), "b".to_owned())],
        ..ProcessConfig::default()
    };
    completes_with(Guest::new(body), config).await;
}

#[tokio::test]
async fn clocks_and_randomness_move_on() {
    let body = "(local $before i64)
        (local.set $before (call $now))
        (call $check (i64.gt_u (local.get $before) (i64.const 0)) (i32.const 1) (i32.const 1))
        (call $sleep (i64.const 20))
        (call $check (i64.ge_u (i64.sub (call $now) (local.get $before)) (i64.const 20000000)) (i32.const 1) (i32.const 2))
        ;; After 2020.
        (call $check (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 40)) (i32.const 0) (i32.const 3))
        (call $check (i64.gt_u (i64.load (i32.const 40)) (i64.const 1577836800000000000)) (i32.const 1) (i32.const 4))
        (call $check (call $clock_time_get (i32.const 2) (i64.const 0) (i32.const 40)) (i32.const 28) (i32.const 5))
        (call $check (call $clock_res_get (i32.const 9) (i32.const 40)) (i32.const 28) (i32.const 6))
        ;; All of a large buffer.
        (call $check (call $random_get (i32.const 4096) (i32.const 120000)) (i32.const 0) (i32.const 7))
        (call $check (i64.eq (i64.load (i32.const 124000)) (i64.const 0)) (i32.const 0) (i32.const 8))
        (call $check (i64.eq (i64.load (i32.const 4096)) (i64.load (i32.const 124000))) (i32.const 0) (i32.const 9))
        (call $check (call $sched_yield) (i32.const 0) (i32.const 10))
        (call $check (call $proc_raise (i32.const 15)) (i32.const 52) (i32.const 11))";
    completes(Guest::new(body)).await;
}

#[tokio::test]
async fn functions_that_do_not_apply_have_their_errors() {
    let body = "
        (call $check (call $fd_seek (i32.const 1) (i64.const 0) (i32.const 0) (i32.const 32)) (i32.const 70) (i32.const 1))
        (call $check (call $fd_pread (i32.const 0) (i32.const 16) (i32.const 1) (i64.const 0) (i32.const 32)) (i32.const 70) (i32.const 2))
        (call $check (call $read (i32.const 1) (i32.const 4096) (i32.const 1)) (i32.const -8) (i32.const 3))
        (call $check (call $write (i32.const 0) (i32.const 4096) (i32.const 1)) (i32.const -8) (i32.const 4))
        (call $check (call $read (i32.const 0) (i32.const 4096) (i32.const 1)) (i32.const 0) (i32.const 5))
        (call $check (call $read (i32.const 3) (i32.const 4096) (i32.const 1)) (i32.const -31) (i32.const 6))
        (call $check (call $sock_accept (i32.const 1) (i32.const 0) (i32.const 32)) (i32.const 57) (i32.const 7))
        (call $check (call $sock_shutdown (i32.const 1) (i32.const 3)) (i32.const 57) (i32.const 8))
        (call $check (call $sock_shutdown (i32.const 1) (i32.const 0)) (i32.const 28) (i32.const 9))
        (call $check (call $dialled (i32.const 1) (i32.const 4096)) (i32.const 57) (i32.const 10))
        (call $check (call $fd_prestat_get (i32.const 2) (i32.const 4096)) (i32.const 8) (i32.const 11))
        (call $check (call $fd_prestat_dir_name (i32.const 3) (i32.const 4096) (i32.const 0)) (i32.const 37) (i32.const 12))
        (call $check (call $fd_filestat_set_size (i32.const 1) (i64.const 0)) (i32.const 28) (i32.const 13))
        (call $check (call $path_symlink (i32.const 4096) (i32.const 1) (i32.const 3) (i32.const 4096) (i32.const 1)) (i32.const 58) (i32.const 14))
        (call $check (call $fd_fdstat_get (i32.const 1) (i32.const 4096)) (i32.const 0) (i32.const 15))
        (call $check (i32.load8_u (i32.const 4096)) (i32.const 2) (i32.const 16))";
    completes(Guest::new(body).text(4096, "x")).await;
}
