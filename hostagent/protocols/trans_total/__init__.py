"""Trans and Total: a partial order of messages by acknowledgements, and a total order by votes in it."""
