"""The routes: one table, the forms of requests and answers, and what each route does."""
