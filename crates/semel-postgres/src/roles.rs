//! The roles of a schema: who may do what, and no more.

use semel::StoreError;

use crate::{error::Fault, schema::Schema};

const ROLES: &str = include_str!("../roles.sql");

/// Makes the roles that are missing, and grants them what the schema has.
pub(crate) async fn grant(
    client: &tokio_postgres::Client,
    schema: &Schema,
) -> Result<(), StoreError> {
    client.batch_execute(&schema.put_into(ROLES)).await.map_err(Fault::from)?;
    Ok(())
}
