//! Connections to a server, each for one request at a time.

use std::{path::Path, sync::Arc};

use anyhow::Context;
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use kube::{
    Config,
    client::ConfigExt,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};

/// The way to a server.
#[derive(Clone)]
pub struct Connector {
    address: String,
    tls: Option<TlsConnector>,
    token: Option<String>,
}

impl Connector {
    /// Returns the way to an address without TLS.
    pub fn plain(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            tls: None,
            token: None,
        }
    }

    /// Returns the way that a kubeconfig shows.
    pub async fn secure(file: &Path) -> anyhow::Result<Self> {
        let kubeconfig = Kubeconfig::read_from(file)?;
        let config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let tls = TlsConnector::from(Arc::new(config.rustls_client_config()?));
        let text: Value = serde_yaml_ng::from_str(&std::fs::read_to_string(file)?)?;
        let token = text["users"][0]["user"]["token"]
            .as_str()
            .map(str::to_owned);
        let address = config
            .cluster_url
            .authority()
            .context("a server without an address")?
            .to_string();
        Ok(Self {
            address,
            tls: Some(tls),
            token,
        })
    }

    /// Opens a connection.
    pub async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let sender = match &self.tls {
            None => {
                let (sender, connection) = handshake(TokioIo::new(stream)).await?;
                tokio::spawn(connection);
                sender
            }
            Some(tls) => {
                let (host, _) = self
                    .address
                    .rsplit_once(':')
                    .context("an address without a port")?;
                let stream = tls
                    .connect(ServerName::try_from(host.to_owned())?, stream)
                    .await?;
                let (sender, connection) = handshake(TokioIo::new(stream)).await?;
                tokio::spawn(connection);
                sender
            }
        };
        Ok(Connection {
            sender,
            address: self.address.clone(),
            token: self.token.clone(),
        })
    }
}

/// A connection.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    address: String,
    token: Option<String>,
}

impl Connection {
    /// Sends a request, and returns the response when it begins.
    pub async fn send(
        &mut self,
        method: &str,
        path: &str,
        body: String,
    ) -> anyhow::Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.address);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(body))?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Sends a request, and returns its answer.
    pub async fn request(
        &mut self,
        method: &str,
        path: &str,
        body: String,
    ) -> anyhow::Result<Bytes> {
        let response = self.send(method, path, body).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        anyhow::ensure!(
            status.is_success(),
            "{method} {path}: {status}: {}",
            String::from_utf8_lossy(&body)
        );
        Ok(body)
    }
}
