"""What single records say, whichever tool printed them: pure readers that the formats share."""
