//! The servers that are measured: an upstream, nginx, the gateway.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use axum::{Router, routing::post};
use tokio::net::{TcpListener, TcpStream};

/// A child process that ends with its owner.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    /// Asks it to end, since nginx killed outright leaves its workers behind, and kills it if it does
    /// not.
    fn drop(&mut self) {
        drop(Command::new("kill").arg(self.child.id().to_string()).status());
        let until = Instant::now() + Duration::from_secs(5);
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > until {
                drop(self.child.kill());
                break;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        drop(self.child.wait());
    }
}

/// Serves a router on a free loopback port.
pub(crate) async fn serve(router: Router) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

/// The handler of every bench: reads the body and answers 201 with a small JSON document.
pub(crate) fn payments() -> Router {
    async fn create(
        body: bytes::Bytes,
    ) -> (http::StatusCode, [(&'static str, &'static str); 1], String) {
        let json = [("content-type", "application/json")];
        (http::StatusCode::CREATED, json, format!("{{\"id\":\"pay_7\",\"bytes\":{}}}", body.len()))
    }
    Router::new().route("/payments", post(create)).route("/plain", post(create))
}

pub(crate) fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// Starts a server that is to listen on `port`, and waits until it does.
pub(crate) async fn start(mut command: Command, port: u16) -> Result<Server> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let program = command.get_program().to_string_lossy().into_owned();
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("start {program}"))?;
    let server = Server { child, address };
    let until = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(address).await.is_err() {
        if Instant::now() > until {
            bail!("{program} did not listen within 20 s");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(server)
}

/// Starts Debian's nginx as a plain proxy.
pub(crate) async fn nginx(dir: &Path, upstream: SocketAddr) -> Result<Server> {
    let port = free_port()?;
    let dir = dir.display();
    let config = format!(
        "daemon off; worker_processes 2; pid {dir}/nginx.pid; error_log stderr warn; user root;
         events {{ worker_connections 1024; }}
         http {{ access_log off; client_max_body_size 8m; keepalive_requests 100000000;
           client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f;
           uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
           upstream up {{ server {upstream}; keepalive 64; keepalive_requests 100000000; }}
           server {{ listen 127.0.0.1:{port};
             location / {{ proxy_pass http://up; proxy_http_version 1.1;
               proxy_set_header Connection \"\"; proxy_next_upstream off; }} }} }}"
    );
    let path = PathBuf::from(format!("{dir}/nginx.conf"));
    std::fs::write(&path, config)?;
    let program = ["/usr/sbin/nginx", "/usr/bin/nginx"];
    let program =
        program.iter().find(|path| Path::new(path).exists()).context("nginx is missing")?;
    let mut command = Command::new(program);
    command.arg("-c").arg(path).arg("-e").arg("stderr");
    start(command, port).await
}

/// Starts the gateway on SQLite: `/payments` is protected, everything else passes.
pub(crate) async fn gateway(dir: &Path, upstream: SocketAddr, extra: &str) -> Result<Server> {
    let port = free_port()?;
    let config = format!(
        "listen = \"127.0.0.1:{port}\"\nstore = \"sqlite:{store}\"\n{extra}\n\
         replay_auth = \"none\"\n[tenant]\nsource = \"single_tenant\"\n\
         [[upstream]]\nname = \"up\"\nurl = \"http://{upstream}\"\n\
         [[operation]]\nname = \"payments.create\"\nmethod = \"POST\"\npath = \"/payments\"\n\
         upstream = \"up\"\nbody_max = \"2 MiB\"\n",
        store = dir.join("semel.db").display(),
    );
    let path = dir.join("semel.toml");
    std::fs::write(&path, config)?;
    let program = std::env::current_exe()?.with_file_name("semel");
    let mut command = Command::new(program);
    command.arg("serve").arg("--config").arg(path);
    start(command, port).await
}
