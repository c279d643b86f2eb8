-- What is the application's own.
CREATE TABLE payment (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    account text NOT NULL,
    amount bigint NOT NULL
);
