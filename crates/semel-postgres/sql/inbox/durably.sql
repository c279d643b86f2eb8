-- Has the commit wait until it is durable: what is acknowledged does not come again.
SELECT semel.commits_durably();
