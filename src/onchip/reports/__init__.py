"""Tables, JSON objects and HTML pages of answers, and explanations of their figures."""
