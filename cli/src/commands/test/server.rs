//! The test server: it accepts connections on the loopback interface, each with a cluster of its
//! own.

use std::{net::Ipv4Addr, sync::Arc};

use anyhow::{Context, Result};
use tokio::{net::TcpListener, task::JoinSet};

use super::{connection, template::Template};

/// A running server; dropping this ends it.
pub struct Server {
    /// `TOKEN@127.0.0.1:PORT`, the value of OPERETTA_TEST_ADDRESS.
    pub address: String,
    accepting: tokio::task::AbortHandle,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Server {
    /// Starts a server on a free port.
    ///
    /// # Errors
    /// Returns an error if no port of the loopback interface is free.
    pub async fn start(template: Template) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("failed to listen on 127.0.0.1")?;

        let token = token();
        let address = format!(
            "{token}@{}",
            listener
                .local_addr()
                .context("failed to read the address")?
        );

        let accepting = tokio::spawn(accept(listener, token, Arc::new(template))).abort_handle();
        Ok(Self { address, accepting })
    }
}

/// Accepts connections. Dropping the future ends their tasks.
async fn accept(listener: TcpListener, token: String, template: Arc<Template>) {
    let mut connections = JoinSet::new();

    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let (token, template) = (token.clone(), template.clone());
                    connections.spawn(async move {
                        if let Err(error) = connection::serve(stream, &token, &template).await {
                            eprintln!("operetta test: {error:#}");
                        }
                    });
                }
                Err(error) => {
                    eprintln!("operetta test: failed to accept a connection: {error}");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            },
            Some(_ended) = connections.join_next() => {}
        }
    }
}

/// 128 random bits in hexadecimal digits.
fn token() -> String {
    format!("{:032x}", rand::random::<u128>())
}
