"""Parts of bench-client-routes: the network of SMesh's routing tables, and the tables of its nodes here."""
