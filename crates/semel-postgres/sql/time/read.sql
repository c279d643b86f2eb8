-- Tells the time that decides.
SELECT semel.now_us();
