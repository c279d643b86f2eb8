//! The receiver and its publisher keep what every publisher promises.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::*;
use crate::conformance::publisher::{FarEnd, FreshPublisher, PublisherUnderTest, Seen};

/// A receiver as the far end of the suite.
#[derive(Debug)]
struct Far(Receiver);

#[async_trait]
impl FarEnd for Far {
    async fn arrived(&self) -> Vec<Seen> {
        let seen = |arrived: Arrived| Seen {
            id: arrived.id,
            lane_id: arrived.lane.id().into(),
            payload: arrived.payload,
            headers: arrived.headers,
        };
        self.0.arrived().into_iter().map(seen).collect()
    }

    async fn trouble(&self, trouble: Trouble) -> bool {
        self.0.trouble(trouble);
        true
    }

    async fn mend(&self) {
        self.0.mend().await;
    }
}

async fn fresh() -> (Receiver, ReceiverPublisher) {
    let receiver = Receiver::listen().await;
    let publisher = ReceiverPublisher::new(receiver.address());
    (receiver, publisher)
}

struct Pipelined;

#[async_trait]
impl PublisherUnderTest for Pipelined {
    async fn fresh() -> FreshPublisher {
        let (receiver, publisher) = fresh().await;
        FreshPublisher::new(Arc::new(publisher), Arc::new(Far(receiver))).with_tombstones()
    }
}

struct OneByOne;

#[async_trait]
impl PublisherUnderTest for OneByOne {
    async fn fresh() -> FreshPublisher {
        let (receiver, publisher) = fresh().await;
        let publisher = Arc::new(publisher.one_by_one());
        FreshPublisher::new(publisher, Arc::new(Far(receiver))).with_tombstones()
    }
}

mod pipelined {
    use super::Pipelined;
    crate::publisher_conformance!(Pipelined);
}

mod one_by_one {
    use super::OneByOne;
    crate::publisher_conformance!(OneByOne);
}

#[tokio::test]
async fn a_receiver_that_went_away_comes_back_on_its_port() {
    let (receiver, _) = fresh().await;
    receiver.trouble(Trouble::Away);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(receiver.address()).await.is_ok() {
        assert!(tokio::time::Instant::now() < deadline, "it never goes away");
    }
    receiver.mend().await;
    assert!(TcpStream::connect(receiver.address()).await.is_ok());
}
