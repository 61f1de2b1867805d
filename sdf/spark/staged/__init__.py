"""StagedRunner: stages of tasks that give back what they cannot finish in their budget."""
