//! Runs the operator against the cluster of the kubeconfig: `KUBECONFIG=… operator`.

use std::process::ExitCode;

use kube::Client;

#[tokio::main]
async fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("operator: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    operator::install(&client).await?;
    operator::run(client).await;
    Ok(())
}

#[allow(clippy::print_stderr)]
fn report(line: &str) {
    eprintln!("{line}");
}
