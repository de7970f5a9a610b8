//! Connections, listeners, names and signals.

use std::{io::ErrorKind, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

use crate::Result;

/// Where the host gives a process its signals.
const SIGNALS: &str = "127.15.15.15:15";

/// Larger than what the host buffers of a connection.
const LARGE: usize = 1 << 20;

/// Prints how a connection succeeds or fails.
pub async fn connect(address: &str) -> Result {
    match TcpStream::connect(address.parse::<SocketAddr>()?).await {
        Ok(stream) => println!(
            "connected: {} -> {}",
            stream.local_addr()?.ip(),
            stream.peer_addr()?
        ),
        Err(error) => println!("failed: {:?}", error.kind()),
    }
    Ok(())
}

/// Sends a megabyte to a peer that sends it back, and reads it at the same time.
pub async fn talk(address: &str) -> Result {
    let stream = TcpStream::connect(address.parse::<SocketAddr>()?).await?;
    let (mut read, mut write) = stream.into_split();
    let sent: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8).collect();

    let writing = tokio::spawn({
        let sent = sent.clone();
        async move {
            write.write_all(&sent).await?;
            write.shutdown().await
        }
    });
    let mut received = Vec::new();
    read.read_to_end(&mut received).await?;
    writing.await??;
    println!("the same came back: {}", received == sent);
    Ok(())
}

/// Sends more than fits, drops nothing, and reads only then: what was written reaches the peer while
/// the program waits for the answer.
pub async fn stuff(address: &str) -> Result {
    let mut stream = TcpStream::connect(address.parse::<SocketAddr>()?).await?;
    let sent = vec![7; 100 << 10];
    stream.write_all(&sent).await?;
    let mut received = vec![0; sent.len()];
    timeout(Duration::from_secs(10), stream.read_exact(&mut received)).await??;
    println!("the same came back: {}", received == sent);
    Ok(())
}

/// Opens connections until one is refused, then as many tasks that each use one.
pub async fn many(address: &str) -> Result {
    let address: SocketAddr = address.parse()?;
    let mut open = Vec::new();
    let error = loop {
        match TcpStream::connect(address).await {
            Ok(stream) => open.push(stream),
            Err(error) => break error,
        }
    };
    println!("opened {}, then: {error}", open.len());

    let mut tasks = JoinSet::new();
    for mut stream in open {
        tasks.spawn(async move {
            stream.write_all(b"ping").await?;
            let mut answer = [0; 4];
            stream.read_exact(&mut answer).await.map(|_| answer)
        });
    }
    let mut answered = 0;
    while let Some(answer) = tasks.join_next().await {
        answered += usize::from(answer?? == *b"ping");
    }
    println!("answered {answered}");
    Ok(())
}

/// Prints the addresses of a name. Only the standard library looks names up on one thread.
pub async fn resolve(name: &str) -> Result {
    use std::net::ToSocketAddrs;

    match (name, 80).to_socket_addrs() {
        Ok(addresses) => {
            let addresses: Vec<_> = addresses.map(|address| address.ip()).collect();
            println!("found: {addresses:?}");
        }
        Err(error) => println!("failed: {error}"),
    }
    Ok(())
}

/// Answers each connection with what it sends, until SIGTERM.
pub async fn serve(address: &str) -> Result {
    let listener = TcpListener::bind(address.parse::<SocketAddr>()?).await?;
    println!("listening on {}", listener.local_addr()?);
    let again = TcpListener::bind(listener.local_addr()?).await;
    println!("again: {:?}", again.map(drop).map_err(|error| error.kind()));

    let mut signals = TcpStream::connect(SIGNALS.parse::<SocketAddr>()?).await?;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (mut stream, peer) = accepted?;
                println!("from {}", peer.ip());
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    tokio::io::copy(&mut read, &mut write).await
                });
            }
            signal = signals.read_u8() => {
                println!("signal {}", signal?);
                // Its last work takes a moment.
                tokio::time::sleep(Duration::from_millis(20)).await;
                println!("done");
                return Ok(());
            }
        }
    }
}

/// Is server and client in one program.
pub async fn itself() -> Result {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let mut request = String::new();
        stream.read_to_string(&mut request).await?;
        stream.write_all(request.to_uppercase().as_bytes()).await?;
        std::io::Result::Ok(request)
    });

    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"hello").await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    println!("{} was answered with {answer}", serving.await??);

    let nobody = TcpStream::connect("127.0.0.1:9").await;
    if nobody.as_ref().err().map(std::io::Error::kind) != Some(ErrorKind::ConnectionRefused) {
        return Err(format!("nobody listens: {nobody:?}").into());
    }
    Ok(())
}
