//! Binds the endpoints' addresses.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use operetta_api::reasons;
use tokio::net::TcpListener;

/// Binds an address from the configuration.
///
/// # Errors
/// When it can't be bound; the message names the address and its field.
pub async fn bind(address: SocketAddr, field: &str) -> Result<TcpListener> {
    let failed =
        || reasons::ADDRESS_UNAVAILABLE.error(format!("failed to listen on {address} ({field})"));
    TcpListener::bind(address).await.with_context(failed)
}
