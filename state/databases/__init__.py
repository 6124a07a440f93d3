"""The databases that a store can live in; they know no sessions."""
