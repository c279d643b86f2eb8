//! Calls of librdkafka that block, kept off the threads that run tasks.

use crate::error::{Error, ErrorKind};

/// Runs what blocks where it holds up no other task.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(Error::new(ErrorKind::Away, "the runtime is shutting down")),
    }
}

/// Runs what blocks where it holds up nobody, such as the end of a client that is dropped, which waits for
/// threads of its own. Outside of a runtime it is run at once.
pub(crate) fn aside(work: impl FnOnce() + Send + 'static) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => work(),
    }
}
