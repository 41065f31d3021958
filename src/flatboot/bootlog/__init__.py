"""From anybody's boot log to its phases, gaps, facts and advice."""
