//! The roles of a schema: who may do what, and no more.

use semel::StoreError;

use crate::{error::forbidden, schema::Schema};

const ROLES: &str = include_str!("../roles.sql");

/// Returns the statements, for somebody else to look at or run.
pub(crate) fn text(schema: &Schema) -> Box<str> {
    schema.put_into(ROLES)
}

/// Makes the roles that are missing, and grants them what the schema has.
pub(crate) async fn grant(
    client: &tokio_postgres::Client,
    schema: &Schema,
) -> Result<(), StoreError> {
    let granted = client.batch_execute(&text(schema)).await;
    granted.map_err(|error| {
        let message = "the role may not make or grant roles; connect as the owner of the schema, with \
                       CREATEROLE";
        forbidden(error.into(), message)
    })
}
