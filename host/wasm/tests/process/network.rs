//! Tests of connections, listeners and names.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use operetta_wasm::process::{
    CAPACITY, Destination, ExitReason, Host, Network, Process, ProcessConfig, Stream, pipe,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{Guest, completes, completes_with, load, start};

/// What is out there: the port decides how a peer behaves.
pub struct World;

const REFUSED: u16 = 20_001;
const SILENT_BEFORE: u16 = 20_002;
const FORBIDDEN: u16 = 20_003;
const ECHO: u16 = 20_004;
const NEVER_READS: u16 = 20_005;
const RESETS: u16 = 20_006;
const HELLO: u16 = 20_007;
const SLOW_ECHO: u16 = 20_008;

#[async_trait]
impl Network for World {
    async fn connect(&self, to: &Destination) -> io::Result<Box<dyn Stream>> {
        let (near, mut far) = pipe();
        match to.port {
            REFUSED => return Err(io::ErrorKind::ConnectionRefused.into()),
            SILENT_BEFORE => std::future::pending::<()>().await,
            FORBIDDEN => return Err(io::ErrorKind::PermissionDenied.into()),
            ECHO => {
                tokio::spawn(echo(far));
            }
            NEVER_READS => {
                tokio::spawn(async move {
                    std::future::pending::<()>().await;
                    drop(far);
                });
            }
            RESETS => {
                tokio::spawn(async move {
                    let mut some = [0; 1];
                    let _read = far.read(&mut some).await;
                    far.reset();
                });
            }
            HELLO => {
                tokio::spawn(async move {
                    far.write_all(b"hello").await.expect("written");
                    far.shutdown().await.expect("shut down");
                    let mut rest = Vec::new();
                    let _read = far.read_to_end(&mut rest).await;
                });
            }
            SLOW_ECHO => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                tokio::spawn(echo(far));
            }
            // A real socket.
            port if to.host == Host::Address([10, 0, 0, 10].into()) => {
                let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
                return Ok(Box::new(stream));
            }
            _ => return Err(io::ErrorKind::HostUnreachable.into()),
        }
        Ok(Box::new(near))
    }

    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        match name {
            "found.test" => Ok(vec![
                [10, 1, 2, 3].into(),
                "fd00::5".parse().expect("valid"),
            ]),
            "many.test" => Ok(vec![[10, 1, 2, 3].into(); 10_000]),
            "slow.test" => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok(vec![[10, 1, 2, 4].into()])
            }
            "down.test" => Err(io::ErrorKind::TimedOut.into()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

async fn echo(stream: operetta_wasm::process::Pipe) {
    let (mut read, mut write) = tokio::io::split(stream);
    let _copied = tokio::io::copy(&mut read, &mut write).await;
    let _shut = write.shutdown().await;
}

/// A guest that has dialled this port: the descriptor is 4, and the outcome was checked.
fn dialled(port: u16, outcome: i32, body: &str) -> Guest {
    Guest::new(&format!(
        "(call $check (call $dial (i32.const 4096) (i32.const 14)) (i32.const 4) (i32.const 100))
         (call $check (call $wait (i32.const 2) (i32.const 4)) (i32.const 0) (i32.const 101))
         (call $check (call $dialled (i32.const 4) (i32.const 4200)) (i32.const {outcome}) (i32.const 102))
         (call $rest)"
    ))
    .with(&format!("(func $rest {body})"))
    .text(4096, &format!("10.0.0.9:{port}"))
    .text(4128, "ping")
}

#[tokio::test]
async fn failed_connection_has_its_error() {
    for (port, errno) in [(REFUSED, 14), (FORBIDDEN, 2)] {
        completes(dialled(
            port,
            errno,
            &format!(
                "(call $check (call $read (i32.const 4) (i32.const 5000) (i32.const 9)) (i32.const -{errno}) (i32.const 1))
                 (call $check (call $write (i32.const 4) (i32.const 4128) (i32.const 4)) (i32.const -{errno}) (i32.const 2))
                 (call $check (call $wait (i32.const 1) (i32.const 4)) (i32.const 0) (i32.const 3))
                 (call $check (call $sock_shutdown (i32.const 4) (i32.const 2)) (i32.const {errno}) (i32.const 4))
                 (call $check (call $fd_close (i32.const 4)) (i32.const 0) (i32.const 5))"
            ),
        ))
        .await;
    }
}

#[tokio::test]
async fn connection_echoes() {
    for port in [ECHO, SLOW_ECHO] {
        completes(dialled(
            port,
            0,
            "(call $check (call $write (i32.const 4) (i32.const 4128) (i32.const 4)) (i32.const 4) (i32.const 1))
             (call $check (call $wait (i32.const 1) (i32.const 4)) (i32.const 0) (i32.const 2))
             (call $check (call $read (i32.const 4) (i32.const 5000) (i32.const 3)) (i32.const 3) (i32.const 3))
             ;; Still one byte, and so still ready.
             (call $check (call $wait_for (i32.const 1) (i32.const 4) (i64.const 1000)) (i32.const 1) (i32.const 4))
             (call $check (call $read (i32.const 4) (i32.const 5003) (i32.const 99)) (i32.const 1) (i32.const 5))
             (call $check (i32.load (i32.const 5000)) (i32.const 0x676e6970) (i32.const 6))
             (call $check (call $read (i32.const 4) (i32.const 5000) (i32.const 9)) (i32.const -6) (i32.const 7))
             (call $check (call $wait_for (i32.const 1) (i32.const 4) (i64.const 5)) (i32.const 0) (i32.const 8))
             ;; Half closed: what was written comes back, and then the end.
             (call $check (call $write (i32.const 4) (i32.const 4128) (i32.const 4)) (i32.const 4) (i32.const 9))
             (call $check (call $sock_shutdown (i32.const 4) (i32.const 2)) (i32.const 0) (i32.const 10))
             (call $check (call $write (i32.const 4) (i32.const 4128) (i32.const 4)) (i32.const -64) (i32.const 11))
             (call $check (call $wait (i32.const 1) (i32.const 4)) (i32.const 0) (i32.const 12))
             (call $check (call $read (i32.const 4) (i32.const 5000) (i32.const 9)) (i32.const 4) (i32.const 13))
             (call $check (call $wait (i32.const 1) (i32.const 4)) (i32.const 0) (i32.const 14))
             (call $check (call $read (i32.const 4) (i32.const 5000) (i32.const 9)) (i32.const 0) (i32.const 15))
             (call $check (call $read (i32.const 4) (i32.const 5000) (i32.const 9)) (i32.const 0) (i32.const 16))",
        ))
        .await;
    }
}

#[tokio::test]
async fn connection_in_the_making_is_neither_readable_nor_writable() {
    completes(
        Guest::new(
            "(call $check (call $dial (i32.const 4096) (i32.const 14)) (i32.const 4) (i32.const 1))
             (call $check (call $dialled (i32.const 4) (i32.const 4200)) (i32.const 6) (i32.const 2))
             (call $check (call $wait_for (i32.const 2) (i32.const 4) (i64.const 20)) (i32.const 0) (i32.const 3))
             (call $check (call $wait_for (i32.const 1) (i32.const 4) (i64.const 20)) (i32.const 0) (i32.const 4))
             (call $check (call $read (i32.const 4) (i32.const 5000) (i32.const 9)) (i32.const -6) (i32.const 5))
             (call $check (call $write (i32.const 4) (i32.const 5000) (i32.const 9)) (i32.const -6) (i32.const 6))
             (call $check (call $sock_shutdown (i32.const 4) (i32.const 1)) (i32.const 53) (i32.const 7))
             (call $check (call $fd_close (i32.const 4)) (i32.const 0) (i32.const 8))",
        )
        .text(4096, &format!("10.0.0.9:{SILENT_BEFORE}")),
    )
    .await;
}

#[tokio::test]
async fn peer_that_never_reads_is_bounded() {
    let capacity = CAPACITY;
    completes(dialled(
        NEVER_READS,
        0,
        &format!(
            "(local $sent i32) (local $last i32)
             (loop $again
                 (local.set $last (call $write (i32.const 4) (i32.const 8192) (i32.const 50000)))
                 (if (i32.gt_s (local.get $last) (i32.const 0)) (then
                     (local.set $sent (i32.add (local.get $sent) (local.get $last)))
                     (br $again))))
             (call $check (local.get $last) (i32.const -6) (i32.const 1))
             (call $check (i32.sub (local.get $sent) (i32.const {capacity})) (i32.const 0) (i32.const 2))
             (call $check (call $wait_for (i32.const 2) (i32.const 4) (i64.const 20)) (i32.const 0) (i32.const 3))"
        ),
    ))
    .await;
}

#[tokio::test]
async fn reset_reaches_the_program() {
    completes(dialled(
        RESETS,
        0,
        "(call $check (call $write (i32.const 4) (i32.const 4128) (i32.const 4)) (i32.const 4) (i32.const 1))
         (call $check (call $wait (i32.const 1) (i32.const 4)) (i32.const 0) (i32.const 2))
         (call $check (call $read (i32.const 4) (i32.const 5000) (i32.const 9)) (i32.const -15) (i32.const 3))
         (call $check (call $read (i32.const 4) (i32.const 5000) (i32.const 9)) (i32.const -15) (i32.const 4))
         (call $check (call $write (i32.const 4) (i32.const 4128) (i32.const 4)) (i32.const -15) (i32.const 5))
         (call $check (call $wait (i32.const 2) (i32.const 4)) (i32.const 0) (i32.const 6))",
    ))
    .await;
}

#[tokio::test]
async fn peer_that_ends_is_read_to_its_end() {
    completes(dialled(
        HELLO,
        0,
        "(call $check (call $wait (i32.const 1) (i32.const 4)) (i32.const 0) (i32.const 1))
         (call $check (call $read (i32.const 4) (i32.const 5000) (i32.const 99)) (i32.const 5) (i32.const 2))
         (call $check (call $wait (i32.const 1) (i32.const 4)) (i32.const 0) (i32.const 3))
         (call $check (call $read (i32.const 4) (i32.const 5000) (i32.const 99)) (i32.const 0) (i32.const 4))
         ;; It still reads.
         (call $check (call $write (i32.const 4) (i32.const 4128) (i32.const 4)) (i32.const 4) (i32.const 5))
         (call $check (call $sock_shutdown (i32.const 4) (i32.const 3)) (i32.const 0) (i32.const 6))",
    ))
    .await;
}

#[tokio::test]
async fn both_addresses_are_known() {
    let own = ProcessConfig {
        address: [10, 9, 8, 7].into(),
        ..ProcessConfig::default()
    };
    let guest = dialled(
        ECHO,
        0,
        "(call $check (call $addresses (i32.const 4) (i32.const 4200) (i32.const 4232)) (i32.const 0) (i32.const 1))
         (call $check (i32.load offset=12 (i32.const 4200)) (i32.const 0x0708090a) (i32.const 2))
         (call $check (i32.load offset=12 (i32.const 4232)) (i32.const 0x0900000a) (i32.const 3))
         (call $check (i32.load16_u offset=10 (i32.const 4232)) (i32.const 0xffff) (i32.const 4))
         (call $check (i32.load8_u offset=16 (i32.const 4232)) (i32.const 78) (i32.const 5))
         (call $check (i32.load8_u offset=17 (i32.const 4232)) (i32.const 36) (i32.const 6))
         (call $check (call $fd_fdstat_get (i32.const 4) (i32.const 4300)) (i32.const 0) (i32.const 7))
         (call $check (i32.load (i32.const 4300)) (i32.const 0x00040006) (i32.const 8))",
    );
    completes_with(guest, own).await;
}

#[tokio::test]
async fn invalid_addresses_are_refused_at_once() {
    let mut body = String::new();
    let mut guest = Guest::default();
    for (number, text) in (1..).zip(["nonsense", "a b:80", "10.0.0.1:99999", "[::1:80", ":x"]) {
        let at = 4096 + 64 * number;
        guest = guest.text(at, text);
        for call in [
            format!("(call $dial (i32.const {at}) (i32.const {}))", text.len()),
            format!(
                "(call $listen (i32.const {at}) (i32.const {}) (i32.const 6000))",
                text.len()
            ),
        ] {
            body += &format!("(call $check {call} (i32.const -28) (i32.const {number}))");
        }
    }
    // Not UTF-8.
    body += "(i32.store (i32.const 6100) (i32.const -1))
             (call $check (call $dial (i32.const 6100) (i32.const 4)) (i32.const -25) (i32.const 9))
             (call $check (call $resolve (i32.const 6100) (i32.const 0)) (i32.const -28) (i32.const 10))";
    guest.body = body;
    completes(guest).await;
}

/// Looks a name up and expects this answer.
fn lookup(name: &str, length: i32, status: i32) -> Guest {
    Guest::new(&format!(
        "(call $check (call $resolve (i32.const 4096) (i32.const {})) (i32.const 4) (i32.const 1))
         (call $check (call $wait (i32.const 1) (i32.const 4)) (i32.const 0) (i32.const 2))
         (call $check (call $read (i32.const 4) (i32.const 5000) (i32.const 20000)) (i32.const {length}) (i32.const 3))
         (call $check (i32.load8_u (i32.const 5000)) (i32.const {status}) (i32.const 4))
         ;; Once.
         (call $check (call $read (i32.const 4) (i32.const 5000) (i32.const 99)) (i32.const 0) (i32.const 5))
         (call $check (call $fd_close (i32.const 4)) (i32.const 0) (i32.const 6))",
        name.len()
    ))
    .text(4096, name)
}

#[tokio::test]
async fn names_are_looked_up() {
    for (name, length, status) in [
        ("found.test", 33, 0),
        ("slow.test", 17, 0),
        ("missing.test", 1, 1),
        ("down.test", 1, 2),
        ("localhost", 33, 0),
        ("10.1.2.3", 17, 0),
        ("found.test.", 33, 0),
        // At most 64 addresses.
        ("many.test", 1025, 0),
    ] {
        let guest = lookup(name, length, status);
        completes(guest).await;
    }
    let mut guest = lookup("found.test", 33, 0);
    guest.body = guest.body.replace(
        ";; Once.",
        "(call $check (i32.load (i32.const 5013)) (i32.const 0x0302010a) (i32.const 7))
         (call $check (i32.load16_u (i32.const 5017)) (i32.const 0x00fd) (i32.const 8))
         (call $check (i32.load8_u (i32.const 5032)) (i32.const 5) (i32.const 9))",
    );
    completes(guest).await;
}

/// A guest that listens on an address and answers the first connection with what it reads from it.
fn listener(address: &str) -> Guest {
    Guest::new(&format!(
        "(call $check (call $listen (i32.const 4096) (i32.const {}) (i32.const 4200)) (i32.const 4) (i32.const 1))
         (call $check (call $sock_accept (i32.const 4) (i32.const 4) (i32.const 48)) (i32.const 6) (i32.const 2))
         (call $check (call $wait (i32.const 1) (i32.const 4)) (i32.const 0) (i32.const 3))
         (call $check (call $sock_accept (i32.const 4) (i32.const 4) (i32.const 48)) (i32.const 0) (i32.const 4))
         (call $check (i32.load (i32.const 48)) (i32.const 5) (i32.const 5))
         (call $check (call $wait (i32.const 1) (i32.const 5)) (i32.const 0) (i32.const 6))
         (call $check (call $read (i32.const 5) (i32.const 5000) (i32.const 4)) (i32.const 4) (i32.const 7))
         (call $check (call $write (i32.const 5) (i32.const 5000) (i32.const 4)) (i32.const 4) (i32.const 8))
         (call $check (call $addresses (i32.const 5) (i32.const 4200) (i32.const 4232)) (i32.const 0) (i32.const 9))
         (call $check (i32.load8_u offset=17 (i32.const 4232)) (i32.const 99) (i32.const 10))
         (call $check (call $sock_shutdown (i32.const 4) (i32.const 3)) (i32.const 0) (i32.const 11))",
        address.len()
    ))
    .text(4096, address)
}

async fn until_listening(process: &Process) -> SocketAddr {
    for _ in 0..1000 {
        if let Some(address) = process.stats().listening.first() {
            return *address;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it does not listen: {:?}", process.exit());
}

#[tokio::test]
async fn host_connects_to_a_listener() {
    for address in [":8080", "0.0.0.0:8080", "[::]:8080", "10.9.8.7:8080"] {
        let config = ProcessConfig {
            address: [10, 9, 8, 7].into(),
            ..ProcessConfig::default()
        };
        let started = start(&listener(address), config).await;
        assert_eq!(until_listening(&started.process).await.port(), 8080);
        let refused = started.process.connect(8081).expect_err("another port");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert!(refused.to_string().contains("port 8081"), "{refused}");

        let from = SocketAddr::from(([10, 0, 0, 1], 99));
        let mut stream = started.process.connect_from(8080, from).expect("listens");
        stream.write_all(b"ping").await.expect("written");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("read");
        assert_eq!(answer, b"ping", "and the end, with the process's");

        let process = started.process.clone();
        let (exit, _) = started.ended().await;
        assert_eq!(exit.reason, ExitReason::Completed, "{exit:?}");
        assert!(process.connect(8080).is_err(), "it has ended");
        assert!(process.stats().listening.is_empty());
    }
}

#[tokio::test]
async fn listener_on_loopback_is_reached_from_inside_only() {
    let guest = Guest::new(
        "(call $check (call $listen (i32.const 4096) (i32.const 14) (i32.const 4200)) (i32.const 4) (i32.const 1))
         (call $check (call $listen (i32.const 4096) (i32.const 14) (i32.const 4200)) (i32.const -3) (i32.const 2))
         (call $check (call $listen (i32.const 4128) (i32.const 5) (i32.const 4200)) (i32.const -3) (i32.const 3))
         (call $check (call $listen (i32.const 4144) (i32.const 11) (i32.const 4200)) (i32.const -4) (i32.const 4))
         (call $check (call $dial (i32.const 4160) (i32.const 14)) (i32.const 5) (i32.const 5))
         (call $check (call $dialled (i32.const 5) (i32.const 4200)) (i32.const 0) (i32.const 6))
         (call $check (call $write (i32.const 5) (i32.const 4096) (i32.const 4)) (i32.const 4) (i32.const 7))
         (call $check (call $wait (i32.const 1) (i32.const 4)) (i32.const 0) (i32.const 8))
         (call $check (call $sock_accept (i32.const 4) (i32.const 4) (i32.const 48)) (i32.const 0) (i32.const 9))
         (call $check (call $read (i32.const 6) (i32.const 5000) (i32.const 9)) (i32.const 4) (i32.const 10))
         ;; Nobody listens there.
         (call $check (call $dial (i32.const 4300) (i32.const 12)) (i32.const 7) (i32.const 11))
         (call $check (call $wait (i32.const 2) (i32.const 7)) (i32.const 0) (i32.const 12))
         (call $check (call $dialled (i32.const 7) (i32.const 5000)) (i32.const 14) (i32.const 13))
         ;; Closed with a connection in its queue, which is reset.
         (call $check (call $dial (i32.const 4160) (i32.const 14)) (i32.const 8) (i32.const 14))
         (call $check (call $fd_close (i32.const 4)) (i32.const 0) (i32.const 15))
         (call $check (call $read (i32.const 8) (i32.const 5000) (i32.const 9)) (i32.const -15) (i32.const 16))
         (call $check (call $listen (i32.const 4128) (i32.const 5) (i32.const 4200)) (i32.const 4) (i32.const 17))
         (call $sleep (i64.const 200))",
    )
    .text(4096, "127.0.0.1:8081")
    .text(4128, ":8081")
    .text(4144, "10.0.0.5:80")
    .text(4160, "localhost:8081")
    .text(4300, "127.0.0.1:81");
    completes(guest).await;

    let started = start(&listener("127.0.0.1:8080"), ProcessConfig::default()).await;
    until_listening(&started.process).await;
    let refused = started.process.connect(8080).expect_err("loopback only");
    assert!(
        refused.to_string().contains("127.0.0.1:8080 only"),
        "{refused}"
    );
    started.process.kill();
    assert_eq!(started.exit().await.reason, ExitReason::Killed);
}

#[tokio::test]
async fn port_zero_picks_free_ports() {
    let guest = Guest::new(
        "(call $check (call $listen (i32.const 4096) (i32.const 2) (i32.const 4200)) (i32.const 4) (i32.const 1))
         (call $check (call $listen (i32.const 4096) (i32.const 2) (i32.const 4232)) (i32.const 5) (i32.const 2))
         (call $check (i32.eq (i32.load16_u offset=16 (i32.const 4200)) (i32.load16_u offset=16 (i32.const 4232)))
             (i32.const 0) (i32.const 3))
         (call $check (i32.eqz (i32.load16_u offset=16 (i32.const 4200))) (i32.const 0) (i32.const 4))
         (call $check (call $addresses (i32.const 4) (i32.const 4264) (i32.const 4300)) (i32.const 0) (i32.const 5))
         (call $check (i32.eq (i32.load16_u offset=16 (i32.const 4264)) (i32.load16_u offset=16 (i32.const 4200)))
             (i32.const 1) (i32.const 6))",
    )
    .text(4096, ":0");
    completes(guest).await;
}

#[tokio::test]
async fn listener_that_never_accepts_is_bounded() {
    let guest = Guest::new(
        "(call $check (call $listen (i32.const 4096) (i32.const 5) (i32.const 4200)) (i32.const 4) (i32.const 1))
         (call $sleep (i64.const 60000))",
    )
    .text(4096, ":8080");
    let started = start(&guest, ProcessConfig::default()).await;
    until_listening(&started.process).await;
    let mut streams = Vec::new();
    let refused = loop {
        match started.process.connect(8080) {
            Ok(stream) => streams.push(stream),
            Err(error) => break error,
        }
    };
    assert_eq!(streams.len(), 128);
    assert!(
        refused.to_string().contains("wait for the process"),
        "{refused}"
    );
    started.process.kill();
    started.exit().await;
    // Whoever waits is told.
    let mut byte = [0; 1];
    let read = streams[0].read(&mut byte).await;
    assert!(read.is_err() || read.is_ok_and(|length| length == 0));
}

#[tokio::test]
async fn real_socket_is_a_stream_as_any_other() {
    let server = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let port = server.local_addr().expect("bound").port();
    let serve = tokio::spawn(async move {
        let (mut stream, _) = server.accept().await.expect("connected");
        let mut received = vec![0; 100_000];
        stream.read_exact(&mut received).await.expect("read");
        stream.write_all(&received).await.expect("written");
    });
    // Sends 100,000 bytes and reads as many, each piece as it fits.
    let guest = dialled(
        port,
        0,
        "(local $sent i32) (local $got i32) (local $last i32)
         (loop $again
             (if (i32.lt_u (local.get $sent) (i32.const 100000)) (then
                 (local.set $last (call $write (i32.const 4) (i32.const 8192) (i32.sub (i32.const 100000) (local.get $sent))))
                 (if (i32.gt_s (local.get $last) (i32.const 0))
                     (then (local.set $sent (i32.add (local.get $sent) (local.get $last))))
                     (else
                         (call $check (local.get $last) (i32.const -6) (i32.const 1))
                         (drop (call $wait (i32.const 2) (i32.const 4)))))
                 (br $again))))
         (loop $again
             (drop (call $wait (i32.const 1) (i32.const 4)))
             (local.set $last (call $read (i32.const 4) (i32.const 8192) (i32.const 50000)))
             (if (i32.lt_s (local.get $last) (i32.const 0))
                 (then (call $check (local.get $last) (i32.const -6) (i32.const 2)))
                 (else (local.set $got (i32.add (local.get $got) (local.get $last)))))
             (br_if $again (i32.lt_u (local.get $got) (i32.const 100000))))
         (call $check (i32.sub (local.get $got) (i32.const 100000)) (i32.const 0) (i32.const 3))",
    );
    let address = format!("10.0.0.10:{port}");
    let mut guest = guest.text(4096, &address);
    let length = format!("(i32.const {})", address.len());
    guest.body = guest.body.replace("(i32.const 14)", &length);
    completes(guest).await;
    serve.await.expect("served");
}

/// A process that ends takes its connections and its attempts with it.
#[tokio::test]
async fn nothing_outlives_a_process() {
    struct Counting(Arc<()>);

    #[async_trait]
    impl Network for Counting {
        async fn connect(&self, _: &Destination) -> io::Result<Box<dyn Stream>> {
            let _attempt = self.0.clone();
            std::future::pending().await
        }

        async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            let _attempt = self.0.clone();
            std::future::pending().await
        }
    }

    let guest = Guest::new(
        "(drop (call $dial (i32.const 4096) (i32.const 11)))
         (drop (call $resolve (i32.const 4128) (i32.const 6)))
         (call $sleep (i64.const 60000))",
    )
    .text(4096, "10.0.0.1:80")
    .text(4128, "a.test");
    let attempts = Arc::new(());
    let network = Arc::new(Counting(attempts.clone()));
    let logs = Arc::new(crate::Logs::default());
    let (process, running) =
        Process::start(&load(&guest).await, ProcessConfig::default(), network, logs);
    let task = tokio::spawn(running);
    while Arc::strong_count(&attempts) < 4 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    process.kill();
    assert_eq!(task.await.expect("no panic").reason, ExitReason::Killed);
    assert_eq!(Arc::strong_count(&attempts), 1);
}
