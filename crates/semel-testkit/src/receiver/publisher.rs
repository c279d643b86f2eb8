//! The publisher of a [`Receiver`](super::Receiver).

use std::{
    io,
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use semel::outbox::{Fault, Message, Publisher, PublisherCapabilities, Sent};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout_at},
};

use super::wire::{Arrived, CONFIRMED, REFUSED_DESTINATION};

/// Sends events to a [`Receiver`](super::Receiver), batch by batch over connections that it keeps.
#[derive(Debug)]
pub struct ReceiverPublisher {
    address: SocketAddr,
    capabilities: PublisherCapabilities,
    idle: Mutex<Vec<TcpStream>>,
}

impl ReceiverPublisher {
    /// Sends to an address: batches of 100 messages of any lanes, 4 at once, within 2 s.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        let mut capabilities = PublisherCapabilities::new("receiver");
        capabilities.pipelined = true;
        capabilities.batch_max = 100;
        capabilities.batches_max = 4;
        capabilities.publish_wait = Duration::from_secs(2);
        Self { address, capabilities, idle: Mutex::default() }
    }

    /// Sends within another time.
    #[must_use]
    pub const fn within(mut self, publish_wait: Duration) -> Self {
        self.capabilities.publish_wait = publish_wait;
        self
    }

    /// Sends one message of each lane at a time.
    #[must_use]
    pub const fn one_by_one(mut self) -> Self {
        self.capabilities.pipelined = false;
        self
    }

    async fn connection(&self) -> io::Result<TcpStream> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        // One whose other end is gone reads as ended; there is never anything else to read of it.
        match idle.filter(is_open) {
            Some(stream) => Ok(stream),
            None => {
                let stream = TcpStream::connect(self.address).await?;
                stream.set_nodelay(true)?;
                Ok(stream)
            }
        }
    }

    /// Sends a batch, and notes each answer as it comes.
    async fn send(
        &self,
        mut stream: TcpStream,
        batch: &[Message],
        sent: &mut Vec<Sent>,
    ) -> io::Result<()> {
        let frames: Vec<u8> =
            batch.iter().flat_map(|message| Arrived::write(&message.event)).collect();
        let (mut reads, mut writes) = stream.split();
        let read = async {
            for _ in batch {
                sent.push(match reads.read_u8().await? {
                    CONFIRMED => Sent::Confirmed,
                    REFUSED_DESTINATION => {
                        refused(Fault::Destination { retry_after: None }, "it is overloaded")
                    }
                    _ => refused(Fault::Message, "it does not take this lane"),
                });
            }
            Ok(())
        };
        tokio::try_join!(writes.write_all(&frames), read)?;
        // A connection on which something was refused goes on refusing: see the receiver.
        if sent.iter().any(|sent| *sent != Sent::Confirmed) {
            return Ok(());
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
        Ok(())
    }
}

fn is_open(stream: &TcpStream) -> bool {
    let ended = stream.try_read(&mut [0]);
    ended.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

fn refused(fault: Fault, why: &str) -> Sent {
    Sent::Refused { fault, why: why.into() }
}

#[async_trait]
impl Publisher for ReceiverPublisher {
    fn capabilities(&self) -> PublisherCapabilities {
        self.capabilities.clone()
    }

    async fn publish(&self, batch: Vec<Message>) -> Vec<Sent> {
        let by = Instant::now() + self.capabilities.publish_wait;
        let Ok(Ok(stream)) = timeout_at(by, self.connection()).await else {
            let fault = Fault::Destination { retry_after: None };
            return batch.iter().map(|_| refused(fault, "it cannot be reached")).collect();
        };
        let mut sent = Vec::with_capacity(batch.len());
        let why = match timeout_at(by, self.send(stream, &batch, &mut sent)).await {
            Ok(Ok(())) => "",
            Ok(Err(_)) => "the connection ended before the answer",
            Err(_) => "there was no answer in time",
        };
        sent.resize_with(batch.len(), || Sent::Unknown { why: why.into() });
        sent
    }
}
