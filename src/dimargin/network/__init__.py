"""Sites that learn together over a network without a centre: messages, programs, a simulator, a real transport."""
