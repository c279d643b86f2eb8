"""What goes wrong through psycopg must be loud: python misuse.py URL"""

import sys

import psycopg

CLAIM = "SELECT permit FROM semel.claim('acme', 'payments.create', %s, 'pay 10')"
COMPLETE = "SELECT semel.complete(%s, 'acme', 'payments.create', 201)"
PAY = "INSERT INTO payment (tenant, cents) VALUES ('misuse', 1000)"


def fails(sqlstate, misuse):
    with psycopg.connect(sys.argv[1], autocommit=True) as connection:
        try:
            misuse(connection)
        except psycopg.Error as error:
            assert error.sqlstate == sqlstate, f"{misuse.__name__}: {error.sqlstate} {error}"
        else:
            raise AssertionError(f"{misuse.__name__}: nothing was said")
    with psycopg.connect(sys.argv[1]) as connection:
        count = connection.execute("SELECT count(*) FROM payment WHERE tenant = 'misuse'").fetchone()
        assert count == (0,), f"{misuse.__name__}: {count}"


def claim(connection, key):
    return connection.execute(CLAIM, (key,)).fetchone()[0]


def no_complete(connection):
    with connection.transaction():
        claim(connection, "no complete".replace(" ", "-"))
        connection.execute(PAY)


def claim_in_a_nested_block(connection):
    with connection.transaction():
        connection.execute(PAY)
        with connection.transaction():
            claim(connection, "nested")


def complete_in_a_nested_block_that_fails(connection):
    with connection.transaction():
        permit = claim(connection, "nested-complete")
        connection.execute(PAY)
        with connection.transaction():
            connection.execute(COMPLETE, (permit,))
            raise psycopg.Rollback


def claim_in_autocommit(connection):
    permit = claim(connection, "autocommit")
    connection.execute(PAY)
    connection.execute(COMPLETE, (permit,))


def claim_after_another_statement_began(connection):
    connection.autocommit = False
    connection.execute("SELECT 1")
    with connection.transaction():
        claim(connection, "began")
        connection.execute(PAY)


def permit_of_a_transaction_before(connection):
    with connection.transaction():
        permit = claim(connection, "before")
        raise psycopg.Rollback
    with connection.transaction():
        connection.execute(PAY)
        connection.execute(COMPLETE, (permit,))


def permit_that_completed(connection):
    with connection.transaction():
        permit = claim(connection, "completed")
        connection.execute(COMPLETE, (permit,))
    with connection.transaction():
        connection.execute(PAY)
        connection.execute(COMPLETE, (permit,))


def twice(connection):
    with connection.transaction():
        connection.execute(PAY)
        claim(connection, "twice")
        claim(connection, "twice")


fails("SM004", no_complete)
fails("SM006", claim_in_a_nested_block)
fails("SM004", complete_in_a_nested_block_that_fails)
fails("SM004", claim_in_autocommit)
fails("SM006", claim_after_another_statement_began)
fails("SM005", permit_of_a_transaction_before)
fails("SM009", permit_that_completed)
fails("SM008", twice)
