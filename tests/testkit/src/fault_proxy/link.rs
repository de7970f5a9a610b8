//! The two directions of a connection. Each can be held back, as in a network partition.

use std::future::pending;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split},
    net::TcpStream,
    sync::watch,
};

use super::Line;

/// How many bytes may be in flight in a direction.
const BUFFER: usize = 64 << 10;

/// The directions in which bytes are held back. The connections stay open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// No request arrives, and no client is seen to disconnect.
    pub requests: bool,
    /// No response arrives, and no event of a watch.
    pub responses: bool,
}

impl Held {
    /// Both directions, as after a cable was pulled.
    pub const BOTH: Self = Self {
        requests: true,
        responses: true,
    };
}

/// The two ends of a pipe: [`carry`] forwards the client's connection to one of them.
pub(super) fn pair() -> (DuplexStream, DuplexStream) {
    duplex(BUFFER)
}

/// Carries bytes between a client and the end of a connection that serves it, until the connection
/// ends.
pub(super) async fn carry(
    client: TcpStream,
    server: DuplexStream,
    connection: impl Future,
    line: watch::Receiver<Line>,
) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = split(server);

    let requests = copy(from_client, to_server, line.clone(), |line| {
        line.held.requests
    });
    let responses = copy(from_server, to_client, line, |line| line.held.responses);

    let served = async move {
        let _errors_are_the_faults = connection.await;
    };

    tokio::select! {
        () = async { requests.await; pending().await } => {}
        _ended = async { tokio::join!(served, responses) } => {}
    }
}

/// Copies bytes until the end, which can be held back as well.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut line: watch::Receiver<Line>,
    is_held: fn(&Line) -> bool,
) {
    let mut buffer = vec![0; BUFFER];

    loop {
        let count = from.read(&mut buffer).await.unwrap_or_default();
        let is_over = line.wait_for(|line| !is_held(line)).await.is_err();
        if is_over || count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }

    let _either_way = to.shutdown().await;
}
