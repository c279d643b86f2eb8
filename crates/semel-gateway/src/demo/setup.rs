//! The folder of a demo: the configuration, the store and the ledger.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// The folder of a demo. A temporary one goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Setup {
    folder: PathBuf,
    _temporary: Option<TempDir>,
}

impl Setup {
    /// Takes a folder, making it if it is missing, or makes a temporary one.
    pub(crate) fn new(folder: Option<&Path>) -> io::Result<Self> {
        match folder {
            Some(folder) => {
                fs::create_dir_all(folder)?;
                Ok(Self { folder: folder.to_owned(), _temporary: None })
            }
            None => {
                let temporary = tempfile::Builder::new().prefix("semel-demo-").tempdir()?;
                Ok(Self { folder: temporary.path().to_owned(), _temporary: Some(temporary) })
            }
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.folder.join("semel.toml")
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.folder.join("ledger.db")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("gateway.log")
    }

    /// Writes the configuration of a gateway before the API.
    pub(crate) fn write(&self, api: SocketAddr) -> io::Result<()> {
        fs::write(self.config(), config(api))
    }
}

/// The spans are short, so that nobody waits long for a lost holder.
fn config(api: SocketAddr) -> String {
    format!(
        r#"# The gateway of `semel demo`.
store = "sqlite:semel.db"
# The demo has no accounts: whoever reaches it may see every answer.
replay_auth = "none"

[tenant]
source = "single_tenant"

[[upstream]]
name = "payments"
url = "http://{api}"
answer_wait = "2s"

# The API charges whenever it is asked: what may have happened is never sent again.
[[operation]]
name = "payments.create"
method = "POST"
path = "/payments"
lease = "1500ms"
settle_for = "2s"
on_lost = "hold"
pointer = "payment:/id"

# The API honours the key that is forwarded: sending again is safe.
[[operation]]
name = "payouts.create"
method = "POST"
path = "/payouts"
lease = "1500ms"
settle_for = "2s"
on_lost = "rerun"
pointer = "payout:/id"
"#
    )
}
