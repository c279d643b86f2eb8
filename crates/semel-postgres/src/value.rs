//! What goes to the server and what comes back, without a driver's types: the same statements are run
//! by Semel's own connections and inside callers' transactions of any driver.

use std::error::Error as StdError;

use bytes::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::{
    error::{Fault, damaged},
    names::Param,
};

/// A parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Bigint(Option<i64>),
    Bigints(&'a [Option<i64>]),
    Blobs(&'a [Option<&'a [u8]>]),
    Bodies(&'a [Option<Vec<u8>>]),
    Bytes(Option<&'a [u8]>),
    Names(&'a [String]),
    Plan([u8; 8]),
    Text(Option<&'a str>),
    Texts(&'a [Option<&'a str>]),
    Truth(bool),
}

impl Value<'_> {
    /// The type that the statement takes it as.
    pub(crate) const fn kind(&self) -> Type {
        match self {
            Self::Bigint(_) => Type::INT8,
            Self::Bigints(_) => Type::INT8_ARRAY,
            Self::Blobs(_) | Self::Bodies(_) => Type::BYTEA_ARRAY,
            Self::Bytes(_) | Self::Plan(_) => Type::BYTEA,
            Self::Text(_) => Type::TEXT,
            Self::Names(_) | Self::Texts(_) => Type::TEXT_ARRAY,
            Self::Truth(_) => Type::BOOL,
        }
    }
}

impl Value<'_> {
    /// The value with its type.
    pub(crate) fn param(&self) -> Param<'_> {
        (self, self.kind())
    }
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        into: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            Self::Bigint(number) => number.to_sql(kind, into),
            Self::Bigints(numbers) => numbers.to_sql(kind, into),
            Self::Blobs(blobs) => blobs.to_sql(kind, into),
            Self::Bodies(bodies) => bodies.to_sql(kind, into),
            Self::Bytes(bytes) => bytes.to_sql(kind, into),
            Self::Names(names) => names.to_sql(kind, into),
            Self::Plan(bytes) => bytes.as_slice().to_sql(kind, into),
            Self::Text(text) => text.to_sql(kind, into),
            Self::Texts(texts) => texts.to_sql(kind, into),
            Self::Truth(truth) => truth.to_sql(kind, into),
        }
    }

    fn accepts(kind: &Type) -> bool {
        let alone = [Type::INT8, Type::BYTEA, Type::TEXT, Type::BOOL];
        let arrays = [Type::INT8_ARRAY, Type::BYTEA_ARRAY, Type::TEXT_ARRAY];
        alone.contains(kind) || arrays.contains(kind)
    }

    to_sql_checked!();
}

/// Runs a statement that returns no rows, without preparing it under a name, so that it works behind a
/// pooler that changes the server's session between transactions; returns how many rows it touched.
pub(crate) async fn execute(
    client: &impl tokio_postgres::GenericClient,
    statement: &str,
    values: &[Value<'_>],
) -> Result<u64, Fault> {
    let typed: Vec<_> = values.iter().map(Value::param).collect();
    Ok(client.execute_typed(statement, &typed).await?)
}

/// The cells of a row that came back.
pub(crate) trait Cells {
    fn bigint(&self, at: usize) -> Result<Option<i64>, Fault>;
    fn bytes(&self, at: usize) -> Result<Option<&[u8]>, Fault>;
    fn text(&self, at: usize) -> Result<Option<&str>, Fault>;
    fn truth(&self, at: usize) -> Result<Option<bool>, Fault>;
}

impl Cells for tokio_postgres::Row {
    fn bigint(&self, at: usize) -> Result<Option<i64>, Fault> {
        self.try_get(at).map_err(another_type)
    }

    fn bytes(&self, at: usize) -> Result<Option<&[u8]>, Fault> {
        self.try_get(at).map_err(another_type)
    }

    fn text(&self, at: usize) -> Result<Option<&str>, Fault> {
        self.try_get(at).map_err(another_type)
    }

    fn truth(&self, at: usize) -> Result<Option<bool>, Fault> {
        self.try_get(at).map_err(another_type)
    }
}

#[cfg(feature = "sqlx")]
impl Cells for sqlx::postgres::PgRow {
    fn bigint(&self, at: usize) -> Result<Option<i64>, Fault> {
        sqlx::Row::try_get(self, at).map_err(another_type)
    }

    fn bytes(&self, at: usize) -> Result<Option<&[u8]>, Fault> {
        sqlx::Row::try_get(self, at).map_err(another_type)
    }

    fn text(&self, at: usize) -> Result<Option<&str>, Fault> {
        sqlx::Row::try_get(self, at).map_err(another_type)
    }

    fn truth(&self, at: usize) -> Result<Option<bool>, Fault> {
        sqlx::Row::try_get(self, at).map_err(another_type)
    }
}

fn another_type(error: impl StdError + Send + Sync + 'static) -> Fault {
    damaged("a column is not what this version writes; check the schema's version")
        .with_source(error)
        .into()
}
