"""Messages to and from tool servers, and the programs that some of them are."""
