"""`sdf.doctor`: says what holds on this driver and its workers, and which of sdf's capabilities work there.

`probe` is what driver and workers try, `facts` is what they found, `findings` judges the facts, `checkup` runs it all.
"""
