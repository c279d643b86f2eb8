-- Has this session told of hints. The channel has the name of the schema.
LISTEN "semel";
