//! Private Kafka brokers: Apache Kafka itself, one node in KRaft mode, on loopback, gone with the test.

mod launch;
#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, SocketAddr};

use tokio::sync::OnceCell;

use self::launch::Launch;
use super::{
    Process,
    patience::blocking,
    port,
    scratch::{Medium, Scratch},
};

/// What Java is told: to start fast and stay small.
const JAVA: &[&str] = &["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

/// Sets up a private broker.
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder {
    settings: Vec<(String, String)>,
    java: Vec<String>,
    medium: Medium,
}

impl Builder {
    /// Sets a parameter of the broker; the last word counts.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Takes these options of Java in place of those that start fast: a bench lets it compile well.
    pub fn java(mut self, options: &[&str]) -> Self {
        self.java = options.iter().map(|&option| option.to_owned()).collect();
        self
    }

    /// Says what its data lies on. It lies in memory unless told otherwise: a killed *process* loses
    /// nothing either way.
    pub fn medium(mut self, medium: Medium) -> Self {
        self.medium = medium;
        self
    }

    /// Starts the broker and waits until it serves.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed or does not start.
    pub async fn start(self) -> Kafka {
        blocking(move || self.start_fresh()).await
    }

    fn start_fresh(self) -> Kafka {
        let scratch = Scratch::new("kafka", self.medium);
        launch::fresh_data(scratch.path());
        let mut launch = Launch { folder: scratch.path().to_owned(), java: self.java, port: 0 };
        let (port, process) = port::start_on_free_port(|port| {
            let launch = Launch { port, ..launch.clone() };
            launch.configure(&self.settings, port::free_port());
            launch.start()
        });
        launch.port = port;
        Kafka { launch, process: Some(process), scratch }
    }
}

/// A private broker. Dropping it ends it and removes its data.
#[derive(Debug)]
pub struct Kafka {
    launch: Launch,
    process: Option<Process>,
    scratch: Scratch,
}

impl Kafka {
    /// Sets up a broker.
    pub fn builder() -> Builder {
        let java = JAVA.iter().map(|&option| option.to_owned()).collect();
        Builder { settings: Vec::new(), java, medium: Medium::Memory }
    }

    /// Starts a broker as it comes: see [`Builder`] for other ways.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed or does not start.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// Returns the broker that all tests of the process share, starting it for the first. Each test
    /// makes topics and groups of its own in it, and leaves its running alone. It ends with the process.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed or does not start.
    pub async fn shared() -> &'static Self {
        static SERVER: OnceCell<Kafka> = OnceCell::const_new();
        SERVER.get_or_init(Self::start).await
    }

    /// Returns where it listens; that stays through a restart.
    ///
    /// A client asks there where the broker is to be reached, and is told the same. Who wants it to go
    /// through a proxy sets `advertised.listeners` by [`Builder::setting`].
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.launch.port).into()
    }

    /// Returns what it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.launch.log()
    }

    /// Kills it, as the kernel does when memory runs out.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
        self.scratch.kill_all();
    }

    /// Says whether it runs, frozen or not: it was neither killed nor shut down since it was started.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// Shuts it down in good order.
    ///
    /// # Panics
    ///
    /// Panics if it does not end.
    pub async fn stop(&mut self) {
        self.resume();
        if let Some(mut process) = self.process.take() {
            blocking(move || Launch::stop(&mut process)).await;
        }
        self.scratch.kill_all();
    }

    /// Starts it again on its data and its port, after shutting it down if it still runs.
    ///
    /// # Panics
    ///
    /// Panics if it does not start.
    pub async fn restart(&mut self) {
        self.stop().await;
        let launch = self.launch.clone();
        let started = blocking(move || launch.start()).await;
        self.process = Some(started.unwrap_or_else(|why| panic!("{why}")));
    }

    /// Freezes it: connections stay open and nothing answers.
    pub fn pause(&self) {
        self.scratch.stop_all();
    }

    /// Lets it go on after [`pause`](Self::pause).
    pub fn resume(&self) {
        self.scratch.continue_all();
    }
}
