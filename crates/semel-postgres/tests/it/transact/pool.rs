//! A pool of connections of tokio-postgres, as an application might have it.

use std::sync::{Arc, Mutex};

use semel_postgres::transact::{Lend, Lent};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Client, NoTls};

#[derive(Clone)]
pub(crate) struct Pool {
    url: String,
    idle: Arc<Mutex<Vec<Client>>>,
    places: Arc<Semaphore>,
}

pub(crate) struct Object {
    client: Option<Client>,
    idle: Arc<Mutex<Vec<Client>>>,
    _place: OwnedSemaphorePermit,
}

impl Pool {
    pub(crate) fn new(url: &str, connections: usize) -> Self {
        let places = Arc::new(Semaphore::new(connections));
        Self { url: url.to_owned(), idle: Arc::default(), places }
    }

    pub(crate) async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }
}

impl Lend for Pool {
    type Lent = Object;
    type Error = tokio_postgres::Error;

    async fn lend(&self) -> Result<Object, tokio_postgres::Error> {
        let place = Arc::clone(&self.places).acquire_owned().await.unwrap();
        let idle = std::iter::from_fn(|| self.idle.lock().unwrap().pop());
        let client = match { idle }.find(|client| !client.is_closed()) {
            Some(client) => client,
            None => Self::connect(&self.url).await?,
        };
        Ok(Object { client: Some(client), idle: Arc::clone(&self.idle), _place: place })
    }
}

impl Lent for Object {
    fn client(&self) -> &Client {
        self.client.as_ref().unwrap()
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        self.idle.lock().unwrap().extend(self.client.take());
    }
}
