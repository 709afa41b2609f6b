"""What a run will do, and what slows it down."""
