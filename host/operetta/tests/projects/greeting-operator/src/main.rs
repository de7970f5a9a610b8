//! An operator that writes a ConfigMap for each Greeting.

mod controller;

use kube::Client;

#[tokio::main]
async fn main() -> Result<(), kube::Error> {
    tracing_subscriber::fmt().with_env_filter("info").init();
    let client = Client::try_default().await?;
    controller::run(client).await;
    Ok(())
}
