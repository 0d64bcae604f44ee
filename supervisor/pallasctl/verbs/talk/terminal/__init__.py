"""What ask and chat share with the person in front of them: messages in, answers, notes and progress out."""
